// The address is the state: path and query say which view is shown, and how.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

interface Place {
  path: string;
  query: URLSearchParams;
}

function current(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export const place = signal<Place>(current());

addEventListener("popstate", () => {
  place.value = current();
});

/** Show another view; the focus goes to its heading, as it would after a page was loaded. */
export function go(address: string): void {
  history.pushState(null, "", address);
  place.value = current();
  scrollTo(0, 0);
  requestAnimationFrame(() => document.querySelector<HTMLElement>("h1")?.focus());
}

/** Change what the query says; an empty value leaves a key out. The history keeps one entry for each view. */
export function setQuery(changes: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  place.value = current();
}

export function asked(key: string, otherwise = ""): string {
  return place.value.query.get(key) ?? otherwise;
}

export const nodeAddress = (name: string): string => `/nodes/${encodeURIComponent(name)}`;
export const podAddress = (name: string): string => `/pods/${name.split("/").map(encodeURIComponent).join("/")}`;
export const hostAddress = (name: string): string => `/hosts/${encodeURIComponent(name)}`;
export const whatIfAddress = (values: Record<string, string>): string => `/what-if?${new URLSearchParams(values).toString()}`;

interface LinkProps {
  to: string;
  current?: boolean;
  children: ComponentChildren;
}

export function Link({ to, current: here, children }: LinkProps) {
  const follow = (event: MouseEvent): void => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a href={to} onClick={follow} aria-current={here ? "page" : undefined}>
      {children}
    </a>
  );
}
