// The map of a cluster: a tile for each node, its area and color those of the chosen measure. Where there is room, the
// pods of a node are blocks in it, one for each.
import { type HierarchyRectangularNode, hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { NodeRow } from "./cluster";
import { byKey, count } from "./format";
import { describe, type Measure, type Step, UNKNOWN, worst } from "./measures";
import { go, nodeAddress, podAddress } from "./router";
import { theme } from "./theme";

export type Work = "online" | "offline" | "owner";

export interface Block {
  name: string;
  work: Work;
}

export interface Tile {
  row: NodeRow;
  group: string;
  pods: readonly Block[];
}

interface Branch {
  name: string;
  children?: Branch[];
  value?: number;
}

type Laid = HierarchyRectangularNode<Branch>;
type Five = [string, string, string, string, string];

/** Where each block of the map lies. */
interface Placed extends Block {
  x: number;
  y: number;
  size: number;
}

const HEAD = 18;
const LINE = 17;
/** The size of the page's text that all sizes of the drawing are meant for. */
const TEXT = 15;
/** Sizes of a pod's block, the largest that fits is taken. */
const BLOCKS = [16, 13, 10, 8, 6];

function layout(tiles: Tile[], measure: Measure, width: number, height: number, zoom: number): Laid {
  const groups = new Map<string, Tile[]>();
  for (const tile of tiles) {
    const group = groups.get(tile.group);
    if (group) group.push(tile);
    else groups.set(tile.group, [tile]);
  }
  const children = [...groups].map(([name, members]) => ({
    name,
    children: members.map(({ row }) => ({ name: row.name, value: Math.max(1, measure.area(row)) })),
  }));
  const root = hierarchy<Branch>({ name: "", children })
    .sum((each) => each.value ?? 0)
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0) || byKey(a.data.name, b.data.name));
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
function shape(tiles: Tile[], measure: Measure): string {
  return measure.name + tiles.map(({ row, group }) => `${row.name}\0${group}\0${measure.area(row)}`).join("\n");
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let size = text.length;
  while (size > 1 && context.measureText(`${text.slice(0, size)}…`).width > width) size--;
  return size > 1 ? `${text.slice(0, size)}…` : "";
}

/** A name in as many lines as it takes, at most `most`; only what does not fit into the last one is cut. */
function wrapped(context: CanvasRenderingContext2D, text: string, width: number, most: number): string[] {
  const lines: string[] = [];
  let rest = text;
  while (rest && lines.length < most) {
    if (lines.length === most - 1 || context.measureText(rest).width <= width) {
      lines.push(fitted(context, rest, width));
      break;
    }
    let size = rest.length;
    while (size > 1 && context.measureText(rest.slice(0, size)).width > width) size--;
    const cut = Math.max(rest.lastIndexOf("-", size - 1), rest.lastIndexOf(".", size - 1)) + 1;
    const taken = cut > 1 ? cut : size;
    lines.push(rest.slice(0, taken));
    rest = rest.slice(taken);
  }
  return lines;
}

function hatch(context: CanvasRenderingContext2D, color: string): CanvasPattern | string {
  const cell = document.createElement("canvas");
  cell.width = cell.height = 8;
  const drawn = cell.getContext("2d");
  if (!drawn) return color;
  drawn.strokeStyle = color;
  drawn.lineWidth = 1.5;
  drawn.beginPath();
  for (const shift of [-8, 0, 8]) {
    drawn.moveTo(shift, 8);
    drawn.lineTo(shift + 8, 0);
  }
  drawn.stroke();
  return context.createPattern(cell, "repeat") ?? color;
}

/** A block of a pod: hollow if it is online, full if it is offline, with a bar if it owns CPUs. */
function drawBlock(context: CanvasRenderingContext2D, { work, x, y, size }: Placed, ink: string, offline: string): void {
  context.lineWidth = 1;
  context.strokeStyle = ink;
  if (work === "offline") {
    context.fillStyle = offline;
    context.fillRect(x, y, size, size);
  } else if (work === "owner") {
    context.fillStyle = ink;
    context.fillRect(x, y, size, size);
    return;
  }
  context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
}

interface Drawing {
  canvas: HTMLCanvasElement;
  laid: Laid;
  byName: Map<string, Tile>;
  measure: Measure;
  chosen: string;
}

function draw({ canvas, laid, byName, measure, chosen }: Drawing): Placed[] {
  const context = canvas.getContext("2d");
  if (!context) return [];
  const scale = devicePixelRatio || 1;
  const style = getComputedStyle(canvas);
  const zoom = parseFloat(style.fontSize) / TEXT;
  const font = `${12 * zoom}px ${style.fontFamily}`;
  const color = (name: string): string => style.getPropertyValue(name).trim();
  const [text, line, bad, offline, ground] = ["--text", "--line", "--error", "--offline", "--ground"].map(color) as Five;
  const fill = (step: Step): [string, string, string | CanvasPattern | null] => [
    color(step.color), color(`${step.color}-ink`) || text, step.hatched ? hatch(context, color(`${step.color}-line`) || line) : null,
  ];
  const steps = measure.steps.map(fill);
  const unknown = fill(UNKNOWN);
  const placed: Placed[] = [];
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
    const { row } = tile;
    const [x, y, width, height] = [leaf.x0, leaf.y0, leaf.x1 - leaf.x0, leaf.y1 - leaf.y0];
    const step = measure.step(row);
    const [paper, ink, lines] = (step === null ? undefined : steps[step]) ?? unknown;
    context.fillStyle = paper;
    context.fillRect(x, y, width, height);
    if (lines) {
      context.fillStyle = lines;
      context.fillRect(x, y, width, height);
    }
    const urgent = worst(row) === 2;
    if (urgent) {
      context.strokeStyle = bad;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, width - 2, height - 2);
    }
    let below = y + 4;
    if (width > 46 * zoom && height > 24 * zoom) below = label(tile, x, y, width, height, ink, lines ? paper : "");
    placed.push(...blocks(tile.pods, x + 5, below + 2, width - 10, y + height - below - 6));
    if (row.name === chosen) {
      context.strokeStyle = text;
      context.lineWidth = 3;
      context.strokeRect(x + 1.5, y + 1.5, width - 3, height - 3);
    } else if (outlined && !urgent) {
      context.strokeStyle = line;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    }
  }
  return placed;

  /** Write name and value into a tile; returns where the last line ends. */
  function label(tile: Tile, x: number, y: number, width: number, height: number, ink: string, paper: string): number {
    if (!context) return y;
    const room = width - 12;
    const most = Math.floor((height - 6) / (LINE * zoom));
    context.font = `600 ${font}`;
    const name = wrapped(context, (worst(tile.row) === 2 ? "! " : "") + tile.row.name, room, Math.max(1, Math.min(3, most - 1)));
    context.font = `400 ${font}`;
    // A number that is cut would be another number; a name that is cut is still a name.
    const value = [measure.text(tile.row)].filter((each) => context.measureText(each).width <= room);
    const lines: [string, number][] = [...name.map((each): [string, number] => [each, 600]), ...value.map((each): [string, number] => [each, 400])];
    let end = y + 3;
    for (const [each, weight] of lines.slice(0, most)) {
      context.font = `${weight} ${font}`;
      const middle = end + (LINE * zoom) / 2;
      if (paper) {
        context.fillStyle = paper;
        context.fillRect(x + 4, end, context.measureText(each).width + 4, LINE * zoom);
      }
      context.fillStyle = ink;
      context.fillText(each, x + 6, middle);
      end += LINE * zoom;
    }
    return end;
  }

  function blocks(pods: readonly Block[], x: number, y: number, width: number, height: number): Placed[] {
    if (!context || !pods.length) return [];
    const size = BLOCKS.map((each) => each * zoom).find(
      (each) => Math.floor((width + 2) / (each + 2)) * Math.floor((height + 2) / (each + 2)) >= pods.length,
    );
    if (!size) return [];
    const across = Math.floor((width + 2) / (size + 2));
    return pods.map((pod, place) => {
      const block = { ...pod, size, x: x + (place % across) * (size + 2), y: y + Math.floor(place / across) * (size + 2) };
      context.fillStyle = ground;
      context.fillRect(block.x, block.y, size, size);
      drawBlock(context, block, text, offline);
      return block;
    });
  }
}

const STEPS: Partial<Record<string, [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

interface TreemapProps {
  tiles: Tile[];
  measure: Measure;
  chosen: string;
  onChoose: (name: string) => void;
}

export function Treemap({ tiles, measure, chosen, onChoose }: TreemapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const placed = useRef<Placed[]>([]);
  const [size, setSize] = useState({ width: 0, height: 0, zoom: 1 });
  const [pod, setPod] = useState("");
  const [pointing, setPointing] = useState(false);
  const wanted = useMemo(() => shape(tiles, measure), [tiles, measure]);
  const laid = useMemo(
    () => (size.width && tiles.length ? layout(tiles, measure, size.width, size.height, size.zoom) : null),
    [wanted, size],
  );
  const byName = useMemo(() => new Map(tiles.map((tile) => [tile.row.name, tile])), [tiles]);

  // Both the size and the drawing are there before the browser paints, so that the first picture has the map.
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const look = (): void => {
      const { width, height } = element.getBoundingClientRect();
      const zoom = parseFloat(getComputedStyle(element).fontSize) / TEXT;
      setSize((now) => (now.width === width && now.height === height && now.zoom === zoom ? now : { width, height, zoom }));
    };
    look();
    const watch = new ResizeObserver(look);
    watch.observe(element);
    return () => {
      watch.disconnect();
    };
  }, []);

  useEffect(() => {
    // Paper does not wait for the next frame.
    const drawNow = (): void => {
      if (canvas.current && laid) draw({ canvas: canvas.current, laid, byName, measure, chosen: "" });
    };
    addEventListener("beforeprint", drawNow);
    return () => {
      removeEventListener("beforeprint", drawNow);
    };
  }, [laid, byName, measure]);

  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const [width, height] = [Math.round(size.width * devicePixelRatio), Math.round(size.height * devicePixelRatio)];
    if (element.width !== width || element.height !== height) [element.width, element.height] = [width, height];
    if (laid) placed.current = draw({ canvas: element, laid, byName, measure, chosen });
    else element.getContext("2d")?.clearRect(0, 0, width, height);
    element.dataset["tiles"] = String(laid ? tiles.length : 0);
    element.dataset["blocks"] = String(laid ? placed.current.length : 0);
    if (laid) performance.mark("map drawn");
  }, [laid, byName, measure, chosen, theme.value]);

  const at = (event: MouseEvent): [node: string, pod: string] => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !laid) return ["", ""];
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const over = placed.current.find((each) => x >= each.x && x < each.x + each.size && y >= each.y && y < each.y + each.size);
    const leaf = laid.leaves().find((each) => x >= each.x0 && x < each.x1 && y >= each.y0 && y < each.y1);
    if (tip.current) {
      tip.current.style.left = `${Math.min(x + 14, box.width - tip.current.offsetWidth)}px`;
      tip.current.style.top = `${y + 18}px`;
    }
    return [leaf?.data.name ?? "", over?.name ?? ""];
  };
  const step = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && chosen) {
      go(nodeAddress(chosen));
      return;
    }
    const way = STEPS[event.key];
    if (!way || !laid) return;
    event.preventDefault();
    setPod("");
    onChoose(neighbor(laid.leaves(), chosen, way));
  };
  const tile = byName.get(chosen);
  const said = tile ? (pod ? `Pod ${pod} on ${describe(tile.row)}` : describe(tile.row)) : "";
  return (
    <div class="map" tabIndex={0} role="group" aria-label="Map of nodes: arrow keys move, Enter opens" onKeyDown={step}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Map of ${count(tiles.length, "node")}; the table has the same numbers`}
        onMouseMove={(event) => {
          const [name, over] = at(event);
          if (name !== chosen) onChoose(name);
          setPod(over);
          setPointing(true);
        }}
        onMouseLeave={() => {
          onChoose("");
          setPod("");
          setPointing(false);
        }}
        onClick={(event) => {
          const [name, over] = at(event);
          if (over) go(podAddress(over));
          else if (name) go(nodeAddress(name));
        }}
      />
      <div ref={tip} class="tip" aria-hidden="true" hidden={!tile || !pointing}>{pod || chosen}</div>
      <p class="chosen" role="status">{said}</p>
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
