// Bundles the page into the Python package. The same sources and lock file give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/labelfold/app/label/static");
await mkdir(out, { recursive: true });

const common = { bundle: true, minify: true, charset: "utf8", legalComments: "none", target: ["es2022"], absWorkingDir: here };
const { metafile } = await build({
  ...common,
  entryPoints: ["src/main.tsx"],
  outfile: join(out, "page.js"),
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  metafile: true,
});
await build({ ...common, entryPoints: ["src/page.css"], outfile: join(out, "page.css") });
await copyFile(join(here, "index.html"), join(out, "index.html"));

// The licence of every package that the bundle holds a part of.
const packages = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
  if (found) packages.add(found[1]);
}
const texts = [];
for (const name of [...packages].sort()) {
  const folder = join(here, "node_modules", name);
  const { version, license, homepage } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence file`);
  const text = (await readFile(join(folder, file), "utf8")).replaceAll("\r\n", "\n").trim();
  texts.push(`${name} ${version} (${license})${homepage ? `\n${homepage}` : ""}\n\n${text}\n`);
}
const rule = `\n${"-".repeat(80)}\n\n`;
await writeFile(
  join(out, "LICENSES.txt"),
  `page.js is labelfold's own (BSD-3-Clause) and holds parts of the packages below, each under its licence.\n${rule}` +
    texts.join(rule),
);
