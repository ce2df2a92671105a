// The page's modules import each other in one direction: in a circle, what is used first may not be there yet.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../web_dist/", import.meta.url));
const IMPORT = /^(?:import|export)\s[^;]*?from\s+"(\.[^"]+)";$|^import "(\.[^"]+)";$/gms;

const modules = readdirSync(ROOT, { recursive: true })
  .filter((name) => name.endsWith(".js") && !name.startsWith("vendor"))
  .map((name) => join(ROOT, name));
const imports = new Map(
  modules.map((path) => {
    const found = [...readFileSync(path, "utf8").matchAll(IMPORT)].map(([, from, alone]) => resolve(dirname(path), from ?? alone));
    return [path, found.filter((other) => !other.includes("/vendor/"))];
  }),
);

test("every import leads to a module", () => {
  assert.ok(modules.length > 100);
  for (const [path, found] of imports) for (const other of found) assert.ok(imports.has(other), `${path} imports ${other}`);
});

test("no module imports itself by way of others", () => {
  const done = new Set();
  const visit = (path, way) => {
    assert.ok(!way.includes(path), [...way.slice(way.indexOf(path)), path].map((one) => relative(ROOT, one)).join(" -> "));
    if (done.has(path)) return;
    for (const other of imports.get(path)) visit(other, [...way, path]);
    done.add(path);
  };
  for (const path of modules) visit(path, []);
});
