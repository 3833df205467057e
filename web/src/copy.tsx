// A command or a patch that can be copied.
import { useEffect, useState } from "preact/hooks";

const SAID_MS = 3_000;

/** Copy a text; a page that is not served by HTTPS or to this machine has no clipboard. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function Copyable({ text, label }: { text: string; label: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const hiding = setTimeout(() => { setSaid(""); }, SAID_MS);
    return () => { clearTimeout(hiding); };
  }, [said]);
  const copy = (): void => {
    void copied(text).then((done) => {
      setSaid(done ? "Copied" : "The browser does not allow it: select the text and copy it");
    });
  };
  return (
    <div class="copyable">
      <pre tabIndex={0} role="group" aria-label={label}>{text}</pre>
      <button type="button" onClick={copy}>Copy<span class="hidden"> {label.toLowerCase()}</span></button>
      <span role="status">{said}</span>
    </div>
  );
}
