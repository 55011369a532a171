// drawn.js SCRIPT [PAGE] - the axes of page.js: what is far above the others is not cut, and nothing is drawn outside. Of a page: the bars
// of the whole run and of each rank are all that they are parts of. Prints what is wrong.
'use strict';

const fs = require('fs'), vm = require('vm');

// As in a page without tables: its functions are there, and nothing is drawn.
const element = {textContent: '{"sections":[]}'};
const page = vm.createContext({document: {getElementById: () => element, querySelectorAll: () => []}});
vm.runInContext(fs.readFileSync(process.argv[2], 'utf-8') + ';globalThis.axisOf = axisOf; globalThis.barsOf = barsOf; globalThis.WHOLE = WHOLE;'
    + 'globalThis.BARS = BARS;', page);

const wrong = [];
const hold = (what, holds) => holds || wrong.push(what);

// An axis of these values, of time unless said otherwise.
function axis(values, isTime = true) {
    return page.axisOf(values, Math.min(...values), Math.max(...values), isTime);
}

// Each value has a place of its own in the order of values, from 0 to 1; labels lie in it, and are few.
function holdAxis(name, values, isLogarithmic, isTime = true) {
    const made = axis(values, isTime), sorted = [...new Set(values)].sort((a, b) => a - b), places = sorted.map(made.of);
    hold(`${name}: logarithmic: ${made.isLogarithmic}`, made.isLogarithmic === isLogarithmic);
    hold(`${name}: places are ${places}`, places.every((place, i) => place >= 0 && place <= 1 && (i === 0 || place > places[i - 1])));
    hold(`${name}: labels are ${made.ticks}`, made.ticks.length >= 1 && made.ticks.length <= 6);
    hold(`${name}: labels at ${made.ticks.map(made.of)}`, made.ticks.map(made.of).every(place => place >= 0 && place <= 1));
    return made;
}

const even = Array.from({length: 100}, (_, i) => 900 + 2 * i);
const few = even.map((value, i) => i % 3 === 0 ? 100 * value : value); // a third is a hundred times as long
const mean = few.reduce((sum, value) => sum + value, 0) / few.length;
holdAxis('even times', even, false);
const broken = holdAxis('a third of the times far above', few, true);
hold('the mean is not within the axis', broken.of(mean) > 0 && broken.of(mean) < 1);
holdAxis('one time far above', [...even, 5e6], true);
holdAxis('many powers of ten', [1, 2, 3, 4, 5, 1e7], true);
holdAxis('values that are no times', [2.3, 1.1, 0.4, 90], false, false);
holdAxis('one time', [700], false);
hold('a time of 0 leaves a logarithmic axis', (place => place === 0)(axis([0, ...few]).of(0)));

// Each row of a table that is drawn as bars: they add up to the row's last time, which is all of it, and each has a colour of its own.
function holdBars(table, colours, whole) {
    const at = table.columns.findIndex(column => column.name === whole);
    for (const row of table.rows) {
        const bars = page.barsOf(colours, table.columns, row), sum = bars.reduce((all, bar) => all + bar[2], 0);
        hold(`${table.title}: the bars of ${row} are ${bars}`, Math.abs(sum - row[at]) <= 1e-6 * row[at]);
        hold(`${table.title}: colours of ${bars}`, new Set(bars.map(bar => bar[0])).size === bars.length);
    }
}

if (process.argv[3]) {
    const text = fs.readFileSync(process.argv[3], 'utf-8').match(/<script type="application\/json" id="report">(.*?)<\/script>/s)[1];
    const tables = JSON.parse(text).sections.flatMap(section => section.tables ?? []);
    const named = title => tables.find(table => table.title === title);
    holdBars(named('The whole run'), page.WHOLE, 'Whole run');
    holdBars(named('What each rank does in a step'), page.BARS, 'Step');
    const before = named('Before backward, on host and device');
    if (before)
        holdBars(before, page.BARS, 'Together');
}
console.log(wrong.join('\n') || 'all axes hold');
process.exit(wrong.length > 0 ? 1 : 0);
