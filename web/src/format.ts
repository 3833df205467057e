// Amounts as the command line prints them (corewise/views/text.py): the same digits, rounded the same way.

export type Amount = number | null | undefined;

/** Milli-CPU as CPUs with as many decimals as are needed: 48000 is "48", 79200 is "79.2". */
export function cpus(milli: Amount): string {
  if (milli === null || milli === undefined) return "-";
  const size = Math.abs(milli);
  const rest = String(size % 1000).padStart(3, "0").replace(/0+$/, "");
  return `${milli < 0 ? "-" : ""}${Math.floor(size / 1000)}${rest ? `.${rest}` : ""}`;
}

/** Measured milli-CPU as CPUs, rounded down: two decimals below ten, else one. */
export function measured(milli: Amount): string {
  if (milli === null || milli === undefined) return "-";
  const whole = Math.floor(milli / 1000);
  const rest = milli - whole * 1000;
  return whole < 10
    ? `${whole}.${String(Math.floor(rest / 10)).padStart(2, "0")}`
    : `${whole}.${Math.floor(rest / 100)}`;
}

/** Bytes as GiB with one decimal, rounded down. */
export function gibibytes(bytes: Amount): string {
  if (bytes === null || bytes === undefined) return "-";
  const whole = Math.floor(bytes / 2 ** 30);
  return `${whole}.${Math.floor(((bytes - whole * 2 ** 30) * 10) / 2 ** 30)}`;
}

/** " (73%)", rounded down, or nothing when there is no whole. */
export function percent(part: Amount, whole: Amount): string {
  return whole && whole > 0 ? ` (${Math.floor(((part ?? 0) * 100) / whole)}%)` : "";
}

export function number(value: Amount): string {
  return value === null || value === undefined ? "-" : String(value);
}

/** "1 node" or "2 nodes". */
export function count(value: number, noun: string): string {
  return value === 1 ? `1 ${noun}` : `${value} ${noun}s`;
}

/** Seconds as 40s, 5m, 2h or 3d. */
export function age(seconds: Amount): string {
  if (seconds === null || seconds === undefined) return "-";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** The numbers of a CPU list such as "0-3,8". */
export function cpuList(text: string | null | undefined): number[] {
  const list: number[] = [];
  for (const part of (text ?? "").split(",").filter(Boolean)) {
    const [first = 0, last = first] = part.split("-").map(Number);
    for (let cpu = first; cpu <= last; cpu++) list.push(cpu);
  }
  return list;
}

const keys = new Map<string, string>();
const MOST_KEYS = 200_000;

/** A key by which texts are in natural order: batch-2 before batch-10. */
export function naturalKey(text: string): string {
  let key = keys.get(text);
  if (key === undefined) {
    if (keys.size >= MOST_KEYS) keys.clear();
    key = text.toLowerCase().replaceAll(/\d+/g, (digits) => digits.replace(/^0+(?=\d)/, "").padStart(12, "0"));
    keys.set(text, key);
  }
  return key;
}

export const byKey = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
