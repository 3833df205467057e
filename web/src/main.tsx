// The page: which view an address shows, the navigation, and the state of the connections.
import { computed, effect } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { ClusterView } from "./cluster";
import { HostsView, HostView } from "./host";
import { NodeView } from "./node";
import { OfflineView, PodsView, ProblemsView } from "./lists";
import { PodView } from "./pod";
import { Link, place } from "./router";
import { ask, feeds, type Session, session, token, tokenWanted } from "./stream";
import { ThemeSwitch } from "./theme";
import { WhatIfView } from "./whatif";

const VIEWS = [
  ["/", "Cluster"],
  ["/pods", "Pods"],
  ["/offline", "Offline work"],
  ["/problems", "Problems"],
  ["/what-if", "What if"],
  ["/hosts", "Compute hosts"],
] as const;

function View() {
  const [, kind = "", ...rest] = place.value.path.split("/");
  const name = rest.map(decodeURIComponent).filter(Boolean).join("/");
  switch (`${kind}${name ? "/:name" : ""}`) {
    case "":
      return <ClusterView />;
    case "nodes/:name":
      return <NodeView key={name} name={name} />;
    case "pods":
      return <PodsView />;
    case "pods/:name":
      return <PodView key={name} name={name} />;
    case "offline":
      return <OfflineView />;
    case "problems":
      return <ProblemsView />;
    case "what-if":
      return <WhatIfView />;
    case "hosts":
      return <HostsView />;
    case "hosts/:name":
      return <HostView key={name} name={name} />;
    default:
      return (
        <>
          <h1 tabIndex={-1}>There is no such page</h1>
          <p>
            <Link to="/">Show the cluster</Link>
          </p>
        </>
      );
  }
}

const connection = computed(() => {
  const open = feeds.value;
  const lost = open.find((feed) => feed.state.value === "lost");
  if (lost) return { state: "lost", text: `${lost.message.value}. The page keeps what it shows, and tries again.` };
  if (open.some((feed) => feed.state.value === "loading")) return { state: "loading", text: "Loading" };
  return open.some((feed) => feed.state.value === "live") ? { state: "live", text: "Live" } : { state: "none", text: "" };
});

function TokenForm() {
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement).get("token");
    token.value = typeof given === "string" ? given.trim() : "";
    tokenWanted.value = false;
  };
  return (
    <form class="what-if" aria-label="Sign in" onSubmit={send}>
      <p>The server shows what the API server lets you see. Give it your token: kubectl create token NAME.</p>
      <label>
        Bearer token
        <input name="token" type="password" autocomplete="off" required />
      </label>
      <button type="submit">Sign in</button>
    </form>
  );
}

function App() {
  useEffect(() => {
    void ask("session")
      .then((answer) => (answer.ok ? (answer.json() as Promise<Session>) : null))
      .then((given) => { session.value = given; }, () => undefined);
  }, []);
  const { path } = place.value;
  const skip = (event: MouseEvent): void => {
    event.preventDefault();
    document.querySelector<HTMLElement>("main")?.focus();
  };
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header>
        <strong>corewise</strong>
        <nav aria-label="Views">
          <ul>
            {VIEWS.filter(([to]) => to !== "/hosts" || session.value?.placement).map(([to, title]) => (
              <li key={to}>
                <Link to={to} current={path === to || (to !== "/" && path.startsWith(`${to}/`))}>
                  {title}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <div class="session">
          {session.value && (
            <span>
              {session.value.cluster}
              {session.value.user && ` as ${session.value.user}`}
            </span>
          )}
          <ThemeSwitch />
        </div>
      </header>
      <p class={`connection ${connection.value.state}`} role="status">
        {connection.value.text}
      </p>
      <main id="main" tabIndex={-1}>
        {tokenWanted.value && <TokenForm />}
        <View />
      </main>
      <footer>
        corewise {session.value?.version} · read-only · CPUs are written as the command line writes them ·{" "}
        <a href="/assets/licenses.txt">Licenses</a>
      </footer>
    </>
  );
}

effect(() => {
  const heading = place.value.path === "/" ? "Cluster" : decodeURIComponent(place.value.path.slice(1));
  document.title = `${heading} - corewise`;
});

const root = document.getElementById("app");
if (root) render(<App />, root);
