/** What the server says and takes. Every address is relative to the page's own, which holds the token. */

export interface ClassCount { name: string; count: number }
export interface Question { row: number; reason: string; how: string }
export interface Expected { value: number; low: number; high: number; n?: number; labels?: number }
export interface Doubt { row: number; id: string; label: string; predicted: string; confidence: number }

export interface State {
  version: number;
  table: string;
  target: string;
  n: number;
  d: number;
  who: string;
  file: string;
  classes: ClassCount[];
  labelled: number;
  skipped: number;
  strategies: { name: string; words: string }[];
  strategy: string;
  question: Question | null;
  accuracy: Expected | null;
  curve: Expected[];
  forecast: Expected | null;
  doubtful: Doubt[];
  can_undo: boolean;
  can_redo: boolean;
  busy: boolean;
  points_version: number;
  said_version: number;
  notes: string[];
}

export interface Column { name: string; text: string; place: number | null; weight: number | null }
export interface Row {
  row: number;
  id: string;
  label: string | null;
  predicted: string | null;
  probabilities: { name: string; p: number }[];
  columns: Column[];
  texts: { name: string; text: string; words: string[] }[];
  pixels: { width: number; height: number; channels: number; values: string } | null;
  image: boolean;
}

export interface Found { rows: number[]; total: number }

/** The server refused, and says why. */
export class Refused extends Error {}
/** No answer came. */
export class Gone extends Error {
  constructor() {
    super("The server is gone; start it again and reload.");
  }
}

async function answered(address: string, options?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { cache: "no-store", ...options });
  } catch {
    throw new Gone();
  }
  if (response.ok) return response;
  let sentence = `The server answered ${response.status} to ${address.split("?")[0]}.`;
  try {
    const said: unknown = (await response.json()).error;
    if (typeof said === "string" && said) sentence = said;
  } catch {
    // no JSON: the status is all there is to say
  }
  throw new Refused(sentence);
}

async function body<T>(response: Promise<Response>, read: (answer: Response) => Promise<T>): Promise<T> {
  const answer = await response;
  try {
    return await read(answer);
  } catch {
    throw new Gone(); // it broke off in the middle
  }
}

export const getJSON = <T>(address: string): Promise<T> => body(answered(address), (a) => a.json() as Promise<T>);
export const getBytes = (address: string): Promise<ArrayBuffer> => body(answered(address), (a) => a.arrayBuffer());
export const getBlob = (address: string): Promise<Blob> => body(answered(address), (a) => a.blob());
export const post = (address: string, data: unknown): Promise<State> =>
  body(
    answered(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) }),
    (a) => a.json() as Promise<State>,
  );
