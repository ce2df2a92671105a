// Colours for code. highlight.js and its grammars are loaded when the first block needs them; the
// result is taken as a token tree through an emitter of ours, so no HTML string is ever made.

// Above this the main thread would be held for longer than a frame or two; such code stays plain.
const MAX_LENGTH = 60_000;

/** Grammar file, its label, other names for it, and grammars it embeds. */
const LANGUAGES = [
  ["bash", "Bash", "sh zsh"],
  ["c", "C", "h"],
  ["cpp", "C++", "c++ cc cxx hpp"],
  ["csharp", "C#", "cs c#"],
  ["css", "CSS", ""],
  ["diff", "Diff", "patch"],
  ["dockerfile", "Dockerfile", "docker"],
  ["go", "Go", "golang"],
  ["ini", "INI", "cfg conf"],
  ["ini", "TOML", "toml"],
  ["java", "Java", ""],
  ["javascript", "JavaScript", "js jsx mjs cjs node"],
  ["json", "JSON", "jsonc json5"],
  ["kotlin", "Kotlin", "kt kts"],
  ["latex", "LaTeX", "tex"],
  ["lua", "Lua", ""],
  ["makefile", "Makefile", "make mk"],
  ["markdown", "Markdown", "md", "xml"],
  ["objectivec", "Objective-C", "objc objective-c"],
  ["perl", "Perl", "pl"],
  ["php", "PHP", ""],
  ["powershell", "PowerShell", "ps1 pwsh"],
  ["python", "Python", "py python3"],
  ["r", "R", ""],
  ["ruby", "Ruby", "rb"],
  ["rust", "Rust", "rs"],
  ["scala", "Scala", ""],
  ["shell", "Shell session", "console shellsession", "bash"],
  ["sql", "SQL", "sqlite postgresql mysql"],
  ["swift", "Swift", ""],
  ["typescript", "TypeScript", "ts tsx"],
  ["xml", "HTML", "html xhtml vue svelte", "css javascript"],
  ["xml", "XML", "xml svg rss plist", "css javascript"],
  ["yaml", "YAML", "yml"],
];

const byName = new Map();
for (const [file, label, names, embeds = ""] of LANGUAGES) {
  const entry = { file, label, embeds: embeds.split(" ").filter(Boolean) };
  for (const name of [file, label.toLowerCase(), ...names.split(" ")]) {
    if (name !== "" && !byName.has(name)) byName.set(name, entry);
  }
}
byName.set("xml", byName.get("svg"));

/** The name to show for the word after the fence: its usual spelling, else as written. */
export function languageLabel(word) {
  return byName.get(word.toLowerCase())?.label ?? word.slice(0, 32);
}

/** The code as coloured nodes, or null if its language is unknown or it is too long. */
export async function highlightInto(word, text) {
  const entry = byName.get(word.toLowerCase());
  if (entry === undefined || text.length > MAX_LENGTH) return null;
  try {
    const engine = await loadEngine();
    await Promise.all([entry.file, ...entry.embeds].map((file) => loadGrammar(engine, file)));
    const result = engine.highlight(text, { language: entry.file, ignoreIllegals: true });
    return toFragment(result._emitter.root);
  } catch (fault) {
    engineLoading = null; // the next block tries again, as after a restart of the server
    grammarsLoading.clear();
    console.warn("code stays plain:", fault); // a missing grammar must not cost the answer
    return null;
  }
}

let engineLoading = null;
const grammarsLoading = new Map();

function loadEngine() {
  engineLoading ??= import("../vendor/highlight/core.js").then(({ default: engine }) => {
    engine.configure({ __emitter: TreeEmitter });
    return engine;
  });
  return engineLoading;
}

function loadGrammar(engine, file) {
  if (!grammarsLoading.has(file)) {
    const loading = import(`../vendor/highlight/${file}.js`).then(({ default: grammar }) => {
      engine.registerLanguage(file, grammar);
    });
    grammarsLoading.set(file, loading);
  }
  return grammarsLoading.get(file);
}

/** What highlight.js asks of an emitter; collects {scope, children} nodes and strings. */
class TreeEmitter {
  root = { scope: null, children: [] };
  #open = [this.root];

  addText(text) {
    if (text !== "") this.#open.at(-1).children.push(text);
  }

  startScope(scope) {
    const child = { scope, children: [] };
    this.#open.at(-1).children.push(child);
    this.#open.push(child);
  }

  endScope() {
    if (this.#open.length > 1) this.#open.pop();
  }

  openNode(scope) {
    this.startScope(scope);
  }

  closeNode() {
    this.endScope();
  }

  __addSublanguage(emitter) {
    this.#open.at(-1).children.push(emitter.root);
  }

  finalize() {
    this.#open = [this.root];
  }

  toHTML() {
    return "";
  }
}

function toFragment({ children }) {
  const fragment = document.createDocumentFragment();
  for (const child of children) {
    if (typeof child === "string") fragment.append(child);
    else if (child.scope === null) fragment.append(toFragment(child));
    else {
      const span = document.createElement("span");
      span.className = `hl-${child.scope.replaceAll(".", "-")}`;
      span.append(toFragment(child));
      fragment.append(span);
    }
  }
  return fragment;
}
