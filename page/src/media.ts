/** What the reader prefers. A worker has no screen to ask. */
import { signal } from "@preact/signals";

const ask = (query: string): MediaQueryList | null => (typeof matchMedia === "function" ? matchMedia(query) : null);
const dark = ask("(prefers-color-scheme: dark)");
const still = ask("(prefers-reduced-motion: reduce)");

const darkness = signal(dark?.matches ?? false);
dark?.addEventListener("change", () => (darkness.value = dark.matches));

/** What asks this while it is rendered is rendered anew when it changes. */
export const isDark = (): boolean => darkness.value;
export const isStill = (): boolean => still?.matches ?? false;
export const onTheme = (told: () => void): void => void darkness.subscribe(told);
