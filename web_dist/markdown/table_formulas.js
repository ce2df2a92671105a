// Bars inside formulas of a table: `| $|x|$ | z |` has two cells. The bars are covered while marked looks for cells.

import { formulasIn } from "./math_rules.js";

const COVER = "\ufdd0"; // a noncharacter: no text has it
const BAR = /(?<!\\)(?:\\\\)*\|/g;

/**
 * @param {string} table as it is written
 * @param {string} delimiters its second line
 * @returns {string} of the same length
 */
export function coverFormulas(table, delimiters) {
  if (!/\$|\\[([]/.test(table) || table.includes(COVER)) return table;
  const columns = countCells(delimiters);
  return table
    .split("\n")
    .map((line) => coverLine(line, columns))
    .join("\n");
}

export function uncover(text) {
  return text.replaceAll(COVER, "|");
}

function coverLine(line, columns) {
  if (!line.includes("|")) return line;
  let covered = line;
  for (const { start, end } of formulasIn(line)) {
    // Escaped ones are no ends of cells already.
    const bars = line.slice(start, end).replace(/\\[\s\S]|\|/g, (sign) => (sign === "|" ? COVER : sign));
    covered = covered.slice(0, start) + bars + covered.slice(end);
  }
  // Signs of money that stand alone in cells: then only the plain reading fits the table.
  return countCells(line) === columns && countCells(covered) !== columns ? line : covered;
}

function countCells(line) {
  const cells = line.trim().replace(/^\|/, "").split(BAR);
  return cells.length > 1 && cells.at(-1).trim() === "" ? cells.length - 1 : cells.length;
}
