// How many problems and recommendations there are, for the navigation of every view. It is asked for again and again
// and not followed: a browser has six connections for all pages of one server.
import { effect, signal } from "@preact/signals";
import { ask, token, tokenWanted } from "./stream";

export interface Summary {
  /** Of the problems that are so now, `error` needs somebody to act, and `warning` usually clears itself. */
  problems: { error: number; warning: number; over: number; nodes: number };
  recommendations: number;
}

export const summary = signal<Summary | null>(null);

const EVERY_MS = 5_000;

async function read(): Promise<void> {
  try {
    const answer = await ask("summary", { signal: AbortSignal.timeout(EVERY_MS * 2) });
    summary.value = answer.ok ? ((await answer.json()) as Summary) : null;
  } catch {
    // The connection of the view says what is wrong; the last counts stay.
  }
}

/** Keep the counts current as long as somebody sees the page; returns what ends it. */
export function followSummary(): () => void {
  const look = (): void => { if (!document.hidden && !tokenWanted.value) void read(); };
  const every = setInterval(look, EVERY_MS);
  document.addEventListener("visibilitychange", look);
  const signedIn = effect(() => { if (token.value) void read(); });
  look();
  return () => {
    clearInterval(every);
    document.removeEventListener("visibilitychange", look);
    signedIn();
  };
}
