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

/** What is shown now: drawings on canvas depend on it. */
export const theme = signal<"light" | "dark">("light");

function apply(): void {
  theme.value = choice.value === "system" ? (system.matches ? "dark" : "light") : choice.value;
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
      <span class="hidden">Colours</span>
      <select value={choice.value} onChange={(event) => { choose(event.currentTarget.value); }}>
        <option value="system">System colours</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
