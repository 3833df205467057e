// The map of a cluster: a tile for each node, its area the node's normalized CPU, filled from the bottom by the
// share that is requested and, darker, by the share that is used. Color is severity only: a node with a problem
// is also hatched and marked with an exclamation mark.
import { type HierarchyRectangularNode, hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, cpus, measured, percent } from "./format";
import { go, nodeAddress } from "./router";
import { theme } from "./theme";

export interface Tile {
  name: string;
  group: string;
  normalized: number;
  requested: number;
  schedulable: number;
  /** Raw milli-CPU, where an agent measures it. */
  used: number | null;
  allocatable: number;
  state: string;
  problem: string;
}

interface Branch {
  name: string;
  children?: Branch[];
  tile?: Tile;
  value?: number;
}

type Laid = HierarchyRectangularNode<Branch>;

const HEAD = 18;
/** Lower tiles have no line at the top of what is requested: many lines would be all that is seen. */
const LINED = 20;
/** The size of the page's text that all sizes of the drawing are meant for. */
const TEXT = 15;
const share = (part: number, whole: number): number => (whole > 0 ? Math.min(1, part / whole) : 0);

function layout(tiles: Tile[], width: number, height: number, zoom: number): Laid {
  const groups = new Map<string, Tile[]>();
  for (const tile of tiles) {
    const group = groups.get(tile.group);
    if (group) group.push(tile);
    else groups.set(tile.group, [tile]);
  }
  const children = [...groups].map(([name, members]) => ({
    name,
    children: members.map((tile) => ({ name: tile.name, tile, value: Math.max(1, tile.normalized) })),
  }));
  const root = hierarchy<Branch>({ name: "", children })
    .sum((each) => each.value ?? 0)
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0) || a.data.name.localeCompare(b.data.name));
  const inner = tiles.length > 1000 ? 1 : 2;
  return treemap<Branch>()
    .tile(treemapSquarify)
    .size([width, height])
    .paddingOuter(1)
    .paddingTop((each) => (each.depth === 1 ? HEAD * zoom : 1))
    .paddingInner((each) => (each.depth === 0 ? 6 : inner))
    .round(true)(root);
}

/** What the layout depends on: as long as it stays the same, tiles stay where they are. */
function shape(tiles: Tile[]): string {
  return tiles.map((tile) => `${tile.name}\0${tile.group}\0${tile.normalized}`).join("\n");
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let size = text.length;
  while (size > 1 && context.measureText(`${text.slice(0, size)}…`).width > width) size--;
  return size > 1 ? `${text.slice(0, size)}…` : "";
}

function hatch(context: CanvasRenderingContext2D, color: string): CanvasPattern | string {
  const cell = document.createElement("canvas");
  cell.width = cell.height = 8;
  const drawn = cell.getContext("2d");
  if (!drawn) return color;
  drawn.strokeStyle = color;
  drawn.lineWidth = 2;
  drawn.beginPath();
  for (const shift of [-8, 0, 8]) {
    drawn.moveTo(shift, 8);
    drawn.lineTo(shift + 8, 0);
  }
  drawn.stroke();
  return context.createPattern(cell, "repeat") ?? color;
}

function draw(canvas: HTMLCanvasElement, laid: Laid, byName: Map<string, Tile>, chosen: string): void {
  const scale = devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  if (!context) return;
  const style = getComputedStyle(canvas);
  const zoom = parseFloat(style.fontSize) / TEXT;
  const font = `${12 * zoom}px ${style.fontFamily}`;
  const color = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const [ground, text, line] = [color("tile"), color("text"), color("line")];
  const [asked, used, bad] = [color("requested"), color("used"), color("error")];
  const striped = hatch(context, bad);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.textBaseline = "middle";
  context.font = `600 ${font}`;
  context.fillStyle = text;
  for (const group of laid.children ?? []) {
    const width = group.x1 - group.x0 - 4;
    const members = count(group.children?.length ?? 0, "node");
    const long = `${group.data.name} · ${members}`;
    const label = context.measureText(long).width <= width ? long : group.data.name;
    if (width > 24) context.fillText(fitted(context, label, width), group.x0 + 2, group.y0 + (HEAD * zoom) / 2);
  }
  const leaves = laid.leaves();
  const outlined = leaves.length < 1000;
  for (const leaf of leaves) {
    const tile = byName.get(leaf.data.name);
    if (!tile) continue;
    const [x, y, width, height] = [leaf.x0, leaf.y0, leaf.x1 - leaf.x0, leaf.y1 - leaf.y0];
    context.fillStyle = ground;
    context.fillRect(x, y, width, height);
    const requested = Math.round(height * share(tile.requested, tile.schedulable));
    context.fillStyle = asked;
    context.fillRect(x, y + height - requested, width, requested);
    if (tile.used !== null) {
      const inUse = Math.round(height * share(tile.used, tile.allocatable));
      context.fillStyle = used;
      context.fillRect(x, y + height - inUse, width, inUse);
    }
    context.fillStyle = text;
    if (requested && height > LINED) context.fillRect(x, y + height - requested, width, 1);
    if (tile.problem) {
      context.fillStyle = striped;
      context.fillRect(x, y, width, Math.min(height, 8));
      context.strokeStyle = bad;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, width - 2, height - 2);
    }
    if (width > 46 * zoom && height > 30 * zoom) label(context, tile, x, y, width, height, text, ground);
    if (tile.name === chosen) {
      context.strokeStyle = text;
      context.lineWidth = 3;
      context.strokeRect(x + 1.5, y + 1.5, width - 3, height - 3);
    } else if (outlined) {
      context.strokeStyle = line;
      context.lineWidth = 1;
      if (!tile.problem) context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    }
  }

  function label(
    on: CanvasRenderingContext2D,
    tile: Tile,
    x: number,
    y: number,
    width: number,
    height: number,
    ink: string,
    paper: string,
  ): void {
    const lines = [
      (tile.problem ? "! " : "") + tile.name,
      `${cpus(tile.normalized)} CPUs`,
      `requested${percent(tile.requested, tile.schedulable)}`,
      tile.used === null ? "" : `used${percent(tile.used, tile.allocatable)}`,
      tile.problem || tile.state,
    ].filter(Boolean);
    lines.slice(0, Math.floor(height / zoom / 18 - 0.66)).forEach((each, place) => {
      on.font = `${place ? 400 : 600} ${font}`;
      // A number that is cut would be another number; a name that is cut is still a name.
      if (place && on.measureText(each).width > width - 14) return;
      const shown = fitted(on, each, width - 14);
      const [left, middle] = [x + 6, y + (place + 1) * 18 * zoom];
      on.globalAlpha = 0.85;
      on.fillStyle = paper;
      on.fillRect(left - 2, middle - 8 * zoom, on.measureText(shown).width + 4, 16 * zoom);
      on.globalAlpha = 1;
      on.fillStyle = ink;
      on.fillText(shown, left, middle);
    });
  }
}

export function describe(tile: Tile): string {
  const parts = [
    `${tile.name}: ${cpus(tile.normalized)} normalized CPUs`,
    `requested ${cpus(tile.requested)} of ${cpus(tile.schedulable)}${percent(tile.requested, tile.schedulable)}`,
  ];
  if (tile.used !== null) parts.push(`used ${measured(tile.used)} raw${percent(tile.used, tile.allocatable)}`);
  if (tile.problem || tile.state) parts.push(tile.problem ? `problem ${tile.problem}` : tile.state);
  return parts.join(", ");
}

const STEPS: Partial<Record<string, [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

interface TreemapProps {
  tiles: Tile[];
  chosen: string;
  onChoose: (name: string) => void;
}

export function Treemap({ tiles, chosen, onChoose }: TreemapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0, zoom: 1 });
  const wanted = shape(tiles);
  const laid = useMemo(
    () => (size.width && tiles.length ? layout(tiles, size.width, size.height, size.zoom) : null),
    [wanted, size],
  );
  const byName = useMemo(() => new Map(tiles.map((tile) => [tile.name, tile])), [tiles]);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const watch = new ResizeObserver(() => {
      const { width, height } = element.getBoundingClientRect();
      element.width = Math.round(width * devicePixelRatio);
      element.height = Math.round(height * devicePixelRatio);
      setSize({ width, height, zoom: parseFloat(getComputedStyle(element).fontSize) / TEXT });
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
    };
  }, []);

  useEffect(() => {
    // Paper does not wait for the next frame.
    const drawNow = (): void => {
      if (canvas.current && laid) draw(canvas.current, laid, byName, "");
    };
    addEventListener("beforeprint", drawNow);
    return () => {
      removeEventListener("beforeprint", drawNow);
    };
  }, [laid, byName]);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const frame = requestAnimationFrame(() => {
      if (laid) draw(element, laid, byName, chosen);
      else element.getContext("2d")?.clearRect(0, 0, element.width, element.height);
      element.dataset["tiles"] = String(laid ? tiles.length : 0);
      performance.mark("map drawn");
    });
    return () => {
      cancelAnimationFrame(frame);
    };
  }, [laid, byName, chosen, theme.value]);

  const at = (event: MouseEvent): string => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !laid) return "";
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return laid.leaves().find((each) => x >= each.x0 && x < each.x1 && y >= each.y0 && y < each.y1)?.data.name ?? "";
  };
  const step = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && chosen) {
      go(nodeAddress(chosen));
      return;
    }
    const way = STEPS[event.key];
    if (!way || !laid) return;
    event.preventDefault();
    onChoose(neighbor(laid.leaves(), chosen, way));
  };
  const tile = byName.get(chosen);
  return (
    <div class="map" tabIndex={0} role="group" aria-label="Map of nodes: arrow keys move, Enter opens" onKeyDown={step}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Map of ${count(tiles.length, "node")}; the table has the same numbers`}
        onMouseMove={(event) => {
          const name = at(event);
          if (name !== chosen) onChoose(name);
        }}
        onMouseLeave={() => { onChoose(""); }}
        onClick={(event) => {
          const name = at(event);
          if (name) go(nodeAddress(name));
        }}
      />
      <p class="chosen" role="status">{tile ? describe(tile) : ""}</p>
    </div>
  );
}

/** The nearest tile in a direction, from the center of the chosen one; the first tile if none is chosen. */
function neighbor(leaves: Laid[], chosen: string, [dx, dy]: [number, number]): string {
  const from = leaves.find((each) => each.data.name === chosen);
  if (!from) return leaves[0]?.data.name ?? "";
  const center = (each: Laid): [number, number] => [(each.x0 + each.x1) / 2, (each.y0 + each.y1) / 2];
  const [x, y] = center(from);
  let best = from;
  let least = Infinity;
  for (const each of leaves) {
    const [toX, toY] = center(each);
    const along = (toX - x) * dx + (toY - y) * dy;
    if (each === from || along <= 0) continue;
    const distance = along + 3 * Math.abs((toX - x) * dy + (toY - y) * dx);
    if (distance < least) [best, least] = [each, distance];
  }
  return best.data.name;
}
