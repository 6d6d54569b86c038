/** How numbers are written. */
export const count = (value: number): string => value.toLocaleString("en");
export const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)}%`;
/** A share with a decimal, but 100% as such. */
export const exact = (share: number): string => percent(share, share > 0.9995 ? 0 : 1);
