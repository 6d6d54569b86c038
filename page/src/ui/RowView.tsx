/** One row in full: its pixels or picture, its texts, its columns with where they stand in the table. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Column, Row } from "../api";

function Pixels({ pixels, id }: { pixels: NonNullable<Row["pixels"]>; id: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const { width, height, channels, values } = pixels;
    const bytes = Uint8Array.from(atob(values), (letter) => letter.charCodeAt(0));
    const image = new ImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes[channels * i + (channels >= 3 ? c : 0)];
      image.data[4 * i + 3] = channels === 4 || channels === 2 ? bytes[channels * (i + 1) - 1] : 255;
    }
    Object.assign(canvas.current!, { width, height });
    canvas.current!.getContext("2d")!.putImageData(image, 0, 0);
  }, [pixels]);
  const wide = pixels.width >= pixels.height;
  return <canvas ref={canvas} class={wide ? "pixels wide" : "pixels high"} role="img" aria-label={`Pixels of ${id}`} />;
}

/** A text with the words that matter marked; nothing of it is ever read as HTML. */
function Text({ text, words }: { text: string; words: string[] }) {
  const said = words.filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!said.length) return <p class="text">{text}</p>;
  said.sort((a, b) => b.length - a.length);
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])(${said.join("|")})(?![\\p{L}\\p{N}_])`, "giu");
  return <p class="text">{text.split(pattern).map((part, i) => (i % 2 ? <mark key={i}>{part}</mark> : part))}</p>;
}

/** The place of a value among all rows: 0 the smallest, 1 the largest. */
function Place({ place }: { place: number }) {
  const x = 1 + 98 * Math.min(Math.max(place, 0), 1);
  return (
    <svg class="place" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label={`above ${Math.round(100 * place)}% of the rows`}>
      <rect class="track" x="0" y="4" width="100" height="4" />
      <rect class="middle" x="49.5" y="2" width="1" height="8" />
      <rect class="tick" x={x - 2} y="0" width="4" height="12" />
    </svg>
  );
}

/** A number with more digits than one reads is cut to five; the whole is in its title. */
const short = (text: string): string => (/^-?\d+\.\d{5,}$/.test(text) ? String(Number(Number(text).toPrecision(5))) : text);

function Columns({ columns, few }: { columns: Column[]; few: number }) {
  const [all, setAll] = useState(false);
  if (!columns.length) return null;
  const seen = all ? columns : columns.slice(0, few);
  return (
    <>
      {seen.length > 0 && (
        <table class="columns">
          <thead class="unseen">
            <tr><th>column</th><th>value</th><th>place in the table</th></tr>
          </thead>
          <tbody>
            {seen.map((column) => (
              <tr key={column.name}>
                <th scope="row" title={column.name}>{column.name}</th>
                <td class="value" title={column.text}>{short(column.text)}</td>
                <td>{column.place === null ? null : <Place place={column.place} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {columns.length > few && (
        <button class="quiet" onClick={() => setAll(!all)} aria-expanded={all}>
          {all ? "Fewer columns" : `All ${columns.length} columns`}
        </button>
      )}
    </>
  );
}

export function RowView({ row }: { row: Row }) {
  const [unread, setUnread] = useState(false);
  const seen = row.pixels || row.image;
  return (
    <>
      {row.image && !unread && (
        <img class="picture" src={`image/${row.row}`} alt={`Image of ${row.id}`} onError={() => setUnread(true)} />
      )}
      {row.pixels && (!row.image || unread) && <Pixels pixels={row.pixels} id={row.id} />}
      {unread && <p class="note">The image file cannot be read{row.pixels ? "; these are the pixels that the model sees" : ""}.</p>}
      {row.texts.map(({ name, text, words }) => (
        <section key={name}>
          {row.texts.length + row.columns.length > 1 && <h3 class="name">{name}</h3>}
          <Text text={text} words={words} />
        </section>
      ))}
      <Columns columns={row.columns.filter(({ text }) => text !== row.id)} few={seen ? 0 : row.texts.length ? 4 : 10} />
    </>
  );
}
