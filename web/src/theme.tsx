// Dark or light: as the system says, until a person chooses otherwise (kept in this browser).
import { effect, signal } from "@preact/signals";

type Choice = "system" | "light" | "dark";
const KEY = "corewise-theme";

function stored(): Choice {
  try {
    const text = localStorage.getItem(KEY);
    return text === "light" || text === "dark" ? text : "system";
  } catch {
    return "system";
  }
}

const choice = signal<Choice>(stored());
const system = matchMedia("(prefers-color-scheme: dark)");

const printMedia = matchMedia("print");

/** Set before a browser lays the page out for paper, so that what follows from it at once is on paper. */
export const printing = signal(printMedia.matches);
for (const [name, value] of [["beforeprint", true], ["afterprint", false]] as const) {
  addEventListener(name, () => { printing.value = value; });
}
printMedia.addEventListener("change", () => { printing.value = printMedia.matches; });

/** What is shown now, on paper always light: drawings on canvas depend on it. */
export const theme = signal<"light" | "dark">("light");

function apply(): void {
  const chosen = choice.value === "system" ? (system.matches ? "dark" : "light") : choice.value;
  theme.value = printing.value ? "light" : chosen;
  document.documentElement.dataset["theme"] = theme.value;
}
effect(apply);
system.addEventListener("change", apply);

export function ThemeSwitch() {
  const choose = (value: string): void => {
    choice.value = value as Choice;
    try {
      localStorage.setItem(KEY, value);
    } catch {
      // A browser that keeps nothing forgets the choice with the page.
    }
  };
  return (
    <label class="theme">
      <span class="hidden">Colors</span>
      <select value={choice.value} onChange={(event) => { choose(event.currentTarget.value); }}>
        <option value="system">System colors</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
