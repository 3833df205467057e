// The page: which view an address shows, the navigation, and the state of the connections.
import { computed, effect } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { ClusterView } from "./cluster";
import { HostsView, HostView } from "./host";
import { NodeView } from "./node";
import { OfflineView, PodsView } from "./lists";
import { PodView } from "./pod";
import { ProblemsView } from "./problems";
import { RecommendationsView } from "./recommendations";
import { Link, place } from "./router";
import { ask, feeds, type Session, session, token, tokenWanted } from "./stream";
import { followSummary, summary } from "./summary";
import { ThemeSwitch } from "./theme";
import { WhatIfView } from "./whatif";

const VIEWS = [
  ["/", "Cluster"],
  ["/pods", "Pods"],
  ["/offline", "Offline work"],
  ["/problems", "Problems"],
  ["/recommendations", "Recommendations"],
  ["/what-if", "What if"],
  ["/hosts", "Compute hosts"],
] as const;

/** What is said while an address leads nowhere. */
function NoView() {
  return (
    <>
      <h1 tabIndex={-1}>The page has no view at this address</h1>
      <p>
        Its views are in the navigation. <Link to="/">Show the cluster</Link>
      </p>
    </>
  );
}

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
    case "recommendations":
      return <RecommendationsView />;
    case "what-if":
      return <WhatIfView />;
    case "hosts":
      return <HostsView />;
    case "hosts/:name":
      return <HostView key={name} name={name} />;
    default:
      return <NoView />;
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
      <p>The page shows what the API server lets you see. Make a token, and paste it here: <code>kubectl create token ACCOUNT</code></p>
      <label>
        Bearer token
        <input name="token" type="password" autocomplete="off" required />
      </label>
      <button type="submit">Sign in</button>
    </form>
  );
}

/** How many there are of what a view lists; problems that somebody has to act on are red. */
function Count({ of }: { of: string }) {
  const known = summary.value;
  if (!known) return null;
  const { error, warning } = known.problems;
  if (of === "/problems" && error + warning > 0) {
    return <span class={`badge ${error ? "error" : ""}`}><span class="hidden">, </span>{error + warning}</span>;
  }
  if (of === "/recommendations" && known.recommendations > 0) {
    return <span class="badge"><span class="hidden">, </span>{known.recommendations}</span>;
  }
  return null;
}

function App() {
  useEffect(() => {
    void ask("session")
      .then((answer) => (answer.ok ? (answer.json() as Promise<Session>) : null))
      .then((given) => { session.value = given; }, () => undefined);
  }, []);
  useEffect(followSummary, []);
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
                  <Count of={to} />
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <div class="session">
          {session.value && (
            <span title={session.value.server ? `API server ${session.value.server}` : undefined}>
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
        corewise {session.value?.version} · read-only ·{" "}
        <a href="/assets/licenses.txt">Licenses</a>
      </footer>
    </>
  );
}

const ABOUT: Record<string, string> = { nodes: "Node", pods: "Pod", hosts: "Host" };

/** The view's name as a browser's tab and history show it: the object first, then the cluster. */
function titleOf(path: string): string {
  const [, kind = "", ...rest] = path.split("/");
  const name = rest.map(decodeURIComponent).filter(Boolean).join("/");
  if (name) return `${ABOUT[kind] ?? kind} ${name}`;
  return VIEWS.find(([to]) => to === path)?.[1] ?? "No such view";
}

effect(() => {
  document.title = [titleOf(place.value.path), session.value?.cluster, "corewise"].filter(Boolean).join(" · ");
});

const root = document.getElementById("app");
if (root) render(<App />, root);
