// Builds the page: `node build.mjs [DIRECTORY]`. The same sources give the same files, byte for byte.
//
// Scripts and styles have a hash of their content in their names, so that browsers may keep them forever.
// licenses.txt holds the license of each package that is part of the bundle.
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const out = path.resolve(process.argv[2] ?? path.join(here, "../packages/corewise/src/corewise/web/assets"));

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  entryNames: "[name]-[hash]",
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  legalComments: "none",
  metafile: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
});

const names = Object.keys(metafile.outputs).map((file) => path.basename(file));
const named = (extension) => names.find((name) => name.endsWith(extension));
const page = await readFile(path.join(here, "src/index.html"), "utf8");
await writeFile(
  path.join(out, "index.html"),
  page.replace("app.js", named(".js")).replace("app.css", named(".css")),
);

const packages = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
const licenses = [];
for (const name of [...packages].sort()) {
  const folder = path.join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each));
  licenses.push(`${name} ${version} (${license})\n\n${(await readFile(path.join(folder, file), "utf8")).trim()}\n`);
}
await writeFile(path.join(out, "licenses.txt"), licenses.join(`\n${"-".repeat(80)}\n\n`));
