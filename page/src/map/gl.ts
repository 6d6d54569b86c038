/** All rows by WebGL 2. Positions are interpolated on the GPU between two buffers. */
import * as twgl from "twgl.js";
import { isDark } from "../media";
import { DARK, GREY, LIGHT, rgb } from "../palette";
import { BYTES, diameter, labelledSize, solid, type Painter } from "./painter";
import type { View } from "./view";

const VERTEX = `#version 300 es
in vec2 from;
in vec2 to;
in vec4 look;
uniform vec2 scale, shift;
uniform float t, size, alpha;
uniform vec3 palette[11];
out lowp vec4 colour;
flat out lowp int shape;
void main() {
  gl_Position = vec4(mix(from, to, t) * scale + shift, 0.0, 1.0);
  float faint = look.z;
  gl_PointSize = size * (1.0 - 0.35 * faint);
  float a = alpha * mix(0.28 + 0.72 * look.y / 255.0, 0.16, faint);
  vec3 c = mix(palette[int(look.x)], palette[0], faint);
  colour = vec4(c * a, a);
  shape = int(look.w);
}`;

/** Many rows: squares of a few pixels, no test for each pixel. */
const SQUARE = `#version 300 es
precision highp float;
in lowp vec4 colour;
out lowp vec4 pixel;
void main() { pixel = colour; }`;

const DISC = `#version 300 es
precision highp float;
in lowp vec4 colour;
uniform float size;
out lowp vec4 pixel;
void main() {
  float d = size * (0.5 - length(gl_PointCoord - 0.5));
  if (d <= 0.0) discard;
  pixel = colour * min(d, 1.0);
}`;

/** Rows with a label: a shape for the class, with an outline. Distances are in pixels, positive inside. */
const SHAPE = `#version 300 es
precision highp float;
in lowp vec4 colour;
flat in lowp int shape;
uniform float size, edge;
uniform vec3 outline;
out lowp vec4 pixel;
float inside(vec2 p) {
  vec2 q = abs(p);
  if (shape == 1) return 0.78 - max(q.x, q.y);
  if (shape == 2) return min(0.62 - p.y, 0.46 - 0.89 * q.x + 0.46 * p.y);
  if (shape == 3) return 0.7 - 0.7071 * (q.x + q.y);
  if (shape == 4) return max(min(0.92 - q.x, 0.36 - q.y), min(0.36 - q.x, 0.92 - q.y));
  return 0.86 - length(p);
}
void main() {
  float d = inside(2.0 * gl_PointCoord - 1.0) * 0.5 * size;
  if (d <= 0.0) discard;
  float fill = clamp(d - edge + 0.5, 0.0, 1.0);
  vec3 c = mix(outline, colour.rgb / max(colour.a, 0.01), fill);
  float a = min(d, 1.0) * max(colour.a, 0.15);
  pixel = vec4(c * a, a);
}`;

/** The map's ground, as --well in page.css. */
const WELL_LIGHT = "#f3f5f8";
const WELL_DARK = "#0d1117";

export class GLPainter implements Painter {
  readonly words = "";
  readonly ratio: number;
  readonly slow: boolean;
  private readonly gl: WebGL2RenderingContext;
  private square!: twgl.ProgramInfo;
  private disc!: twgl.ProgramInfo;
  private shape!: twgl.ProgramInfo;
  private fromBuffer!: WebGLBuffer;
  private toBuffer!: WebGLBuffer;
  private look!: WebGLBuffer;
  private index!: WebGLBuffer;
  private n = 0;
  private labelled = 0;
  private kept: { from?: Float32Array; to?: Float32Array; bytes?: Uint8Array; labelled?: Uint32Array } = {};

  /** Give a painter, or null where the browser has no WebGL 2. */
  static on(canvas: HTMLCanvasElement, again: () => void): GLPainter | null {
    const gl = canvas.getContext("webgl2", { antialias: false, depth: false, alpha: false });
    if (!gl) return null;
    try {
      return new GLPainter(gl, canvas, again);
    } catch {
      return null;
    }
  }

  private constructor(gl: WebGL2RenderingContext, canvas: HTMLCanvasElement, again: () => void) {
    this.gl = gl;
    const told = gl.getExtension("WEBGL_debug_renderer_info");
    const name = told ? String(gl.getParameter(told.UNMASKED_RENDERER_WEBGL)) : "";
    this.slow = /swiftshader|llvmpipe|software|basic render/i.test(name);
    this.ratio = this.slow ? 1 : 2;
    this.make();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.make();
      const { from, to, bytes, labelled } = this.kept;
      if (from && to) this.points(from, to);
      if (bytes && labelled) this.looks(bytes, labelled);
      again();
    });
  }

  private make(): void {
    const gl = this.gl;
    const program = (fragment: string): twgl.ProgramInfo => {
      const made = twgl.createProgramInfo(gl, [VERTEX, fragment], {
        attribLocations: { from: 0, to: 1, look: 2 },
        errorCallback: () => {},
      });
      if (!made) throw new Error("the shaders do not compile");
      return made;
    };
    [this.square, this.disc, this.shape] = [SQUARE, DISC, SHAPE].map(program);
    [this.fromBuffer, this.toBuffer, this.look, this.index] = [0, 1, 2, 3].map(() => gl.createBuffer()!);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  private fill(target: number, buffer: WebGLBuffer, data: ArrayBufferView): void {
    this.gl.bindBuffer(target, buffer);
    this.gl.bufferData(target, data, this.gl.DYNAMIC_DRAW);
  }

  points(from: Float32Array, to: Float32Array): void {
    Object.assign(this.kept, { from, to });
    this.n = to.length / 2;
    this.fill(this.gl.ARRAY_BUFFER, this.fromBuffer, from);
    this.fill(this.gl.ARRAY_BUFFER, this.toBuffer, to);
  }

  looks(bytes: Uint8Array, labelled: Uint32Array): void {
    Object.assign(this.kept, { bytes, labelled });
    this.labelled = labelled.length;
    this.fill(this.gl.ARRAY_BUFFER, this.look, bytes);
    this.fill(this.gl.ELEMENT_ARRAY_BUFFER, this.index, labelled);
  }

  draw(view: View, t: number, step: number, pixels: number): void {
    const gl = this.gl;
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
    gl.clearColor(...rgb(isDark() ? WELL_DARK : WELL_LIGHT), 1); // without alpha: nothing is left to blend for the page
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.n || gl.isContextLost()) return;
    const sx = (2 * view.scale) / view.width;
    const sy = (2 * view.scale) / view.height;
    const dark = isDark();
    const size = diameter(this.n, view.zoom) * pixels;
    const uniforms = {
      scale: [sx, sy],
      shift: [-view.x * sx, -view.y * sy],
      t,
      size,
      alpha: solid(this.n / step, view.zoom),
      palette: [GREY, ...(dark ? DARK : LIGHT)].flatMap(rgb),
    };
    this.use(size > 3.2 ? this.disc : this.square, step, uniforms);
    gl.drawArrays(gl.POINTS, 0, Math.floor((this.n - 1) / step) + 1);
    if (this.labelled) {
      this.use(this.shape, 1, {
        ...uniforms,
        alpha: 1,
        size: labelledSize(this.n, view.zoom) * pixels,
        edge: 1.3 * pixels,
        outline: rgb(dark ? "#f4f7fa" : "#151a22"),
      });
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.index);
      gl.drawElements(gl.POINTS, this.labelled, gl.UNSIGNED_INT, 0);
    }
  }

  /** A step of several rows is a stride of the buffers: a sample of the rows without another copy of them. */
  private use(program: twgl.ProgramInfo, step: number, uniforms: Record<string, unknown>): void {
    const gl = this.gl;
    gl.useProgram(program.program);
    const attribs = {
      from: { buffer: this.fromBuffer, numComponents: 2, type: gl.FLOAT, stride: 8 * step },
      to: { buffer: this.toBuffer, numComponents: 2, type: gl.FLOAT, stride: 8 * step },
      look: { buffer: this.look, numComponents: 4, type: gl.UNSIGNED_BYTE, normalize: false, stride: BYTES * step },
    };
    twgl.setBuffersAndAttributes(gl, program, { attribs, numElements: this.n });
    twgl.setUniforms(program, uniforms);
  }
}

/** Steps that a stride of at most 255 bytes allows. */
export const MOST_STEP = 16;
