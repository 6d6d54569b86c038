/** What the reader prefers. A worker has no screen to ask. */
const ask = (query: string): MediaQueryList | null => (typeof matchMedia === "function" ? matchMedia(query) : null);
const dark = ask("(prefers-color-scheme: dark)");
const still = ask("(prefers-reduced-motion: reduce)");

export const isDark = (): boolean => dark?.matches ?? false;
export const isStill = (): boolean => still?.matches ?? false;
export const onTheme = (told: () => void): void => dark?.addEventListener("change", told);
