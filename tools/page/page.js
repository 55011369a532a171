// page.js - what a page of `ddprun report` does beyond its text: tables sort; curves and one step's timeline are drawn
// from the report (docs/insight.md), and tell their values under the pointer. Without it the text stands as it is.
'use strict';

const report = JSON.parse(document.getElementById('report').textContent);
const tip = document.getElementById('tip');
const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

// A new element at the end of another one.
function add(parent, name, attributes = {}, text = '') {
    const isSvg = ['svg', 'rect', 'line', 'path', 'circle', 'text'].includes(name);
    const made = document.createElementNS('http://www.w3.org/' + (isSvg ? '2000/svg' : '1999/xhtml'), name);
    for (const [key, value] of Object.entries(attributes))
        made.setAttribute(key, value);
    made.textContent = text;
    parent.append(made);
    return made;
}

// ---- figures: as in the text of the page ----

function figure(kind, value) {
    if (kind !== 'time')
        return Math.abs(value) >= 1e7 ? value.toPrecision(7) : String(Number(value.toPrecision(5)));
    const size = Math.abs(value), [divide, unit] = size < 999.5 ? [1, '\u00b5s']
        : size < 999.5e3 ? [1e3, 'ms'] : [1e6, 's'], shown = size / divide;
    return (value / divide).toFixed(shown === 0 || shown >= 99.95 ? 0 : shown < 9.995 ? 2 : 1) + ' ' + unit;
}

// Round numbers between two: at most `most` of them.
function ticks(from, to, most) {
    const least = (to - from) / most, power = 10 ** Math.floor(Math.log10(least));
    const step = power * [1, 2, 5, 10].find(times => times * power >= least * 0.999);
    return Array.from({length: most + 1}, (_, i) => (Math.ceil(from / step) + i) * step).filter(value => value <= to);
}

// ---- an axis ----

// Of a curve's values, and of the least and the greatest of its bands. Few times far above the others would flatten
// these: such an axis is logarithmic. It begins at the least value above 0, or at a thousandth of the median. `of` is
// a value's place, from 0 to 1.
function axisOf(values, least, greatest, isTime) {
    const sorted = [...values].sort((a, b) => a - b), median = sorted[sorted.length >> 1];
    if (isTime && median > 0 && greatest > 4.5 * median) {
        const positive = sorted.find(value => value > 0);
        const low = Math.max(positive, median / 1000) / 1.1, high = greatest * 1.1;
        const of = value => clamp(Math.log(value / low) / Math.log(high / low), 0, 1);
        return {isLogarithmic: true, of, ticks: powers(low, high)};
    }
    const low = isTime ? 0 : least;
    const span = greatest - low > 1e-6 * Math.abs(greatest) ? greatest - low : Math.abs(greatest) || 1;
    return {isLogarithmic: false, of: value => clamp((value - low) / span, 0, 1), ticks: ticks(low, low + span, 4)};
}

// Of 1, 2 and 5 times powers of ten, or of ten, a hundred and so on alone: at most five.
function powers(low, high) {
    const first = Math.floor(Math.log10(low)), all = Array.from({length: 40}, (_, i) => 10 ** (first + i));
    const inside = values => values.filter(value => value >= low && value <= high);
    const fine = inside(all.flatMap(power => [power, 2 * power, 5 * power])), coarse = inside(all);
    const shown = fine.length <= 5 ? fine : coarse, each = Math.ceil(shown.length / 5);
    return shown.filter((_, i) => i % each === 0);
}

// ---- what is under the pointer ----

function showTip(event, text) {
    tip.hidden = text === '';
    tip.textContent = text;
    const {width, height} = tip.getBoundingClientRect(), below = event.clientY + 18;
    tip.style.left = clamp(event.clientX + 14, 0, innerWidth - width - 4) + 'px';
    tip.style.top = (below + height > innerHeight ? below - height - 28 : below) + 'px';
}

// Draws a picture anew for each width that it gets, and asks for the text at each place of the pointer.
function picture(parent, height, label, draw, tell) {
    const svg = add(parent, 'svg', {class: 'chart', role: 'img', 'aria-label': label, height});
    const redraw = () => {
        svg.textContent = '';
        svg.setAttribute('viewBox', `0 0 ${svg.clientWidth || 600} ${height}`);
        draw(svg, svg.clientWidth || 600);
    };
    new ResizeObserver(redraw).observe(svg);
    const placeOf = event => event.clientX - svg.getBoundingClientRect().left;
    svg.addEventListener('pointermove', event => showTip(event, tell(event.target, placeOf(event))));
    svg.addEventListener('pointerleave', event => showTip(event, ''));
    return {svg, redraw, placeOf};
}

// Colours have names, which page.css gives for light and dark.
const fill = colour => `fill: var(--${colour})`;

function legend(parent, entries) {
    const list = add(parent, 'div', {class: 'legend'});
    for (const [colour, meaning] of entries) {
        const key = add(list, 'span', {class: 'key'});
        add(add(key, 'svg', {width: 12, height: 12}), 'rect', {style: fill(colour), width: 12, height: 12, rx: 2});
        key.append(meaning);
    }
}

// A place for what is drawn of a table, above it, with its name; the table itself is closed.
function placeAbove(table) {
    const box = table.closest('details'), place = document.createElement('div'), summary = box.querySelector('summary');
    box.before(place);
    box.open = false;
    place.append(...summary.childNodes);
    summary.textContent = 'as a table';
    return place;
}

// ---- tables ----

function sortable(table, data) {
    const rows = [...table.tBodies[0].rows], headings = [...table.tHead.rows[0].cells];
    const order = (a, b) => (a === null) - (b === null) || (typeof a === 'number' && typeof b === 'number' ? a - b
        : String(a).localeCompare(String(b), 'en', {numeric: true}));
    headings.forEach((heading, column) => {
        const name = heading.textContent;
        heading.textContent = '';
        add(heading, 'button', {type: 'button'}, name).addEventListener('click', () => {
            const sign = heading.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
            headings.forEach(other => other.removeAttribute('aria-sort'));
            heading.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
            const value = i => data.rows[i][column], places = rows.map((_, i) => i);
            places.sort((a, b) => sign * order(value(a), value(b)) || a - b);
            table.tBodies[0].append(...places.map(i => rows[i]));
        });
    });
}

// Columns of a table as bars behind its rows: parts of a step side by side.
const BARS = {'Before backward': 'before', Backward: 'backward', Exposed: 'network', 'Waits for ranks': 'ranks',
              Other: 'before', Loader: 'mark', Copies: 'late', Forward: 'early'};

// Bars of a row of a table, side by side: [colour, name, value]. Columns without a colour have none, and what is not known.
function barsOf(colours, columns, row) {
    const bars = columns.map((column, i) => [colours[column.name], column.name, row[i]]);
    return bars.filter(([colour, , value]) => colour && value !== null);
}

// Draws them; `whole` is as wide as the picture.
function drawBars(svg, bars, whole, height) {
    bars.reduce((x, [colour, , value]) => {
        const width = 100 * value / whole;
        add(svg, 'rect', {style: fill(colour), x: x + '%', width: width + '%', height});
        return x + width;
    }, 0);
}

const sumOf = bars => bars.reduce((sum, [, , value]) => sum + value, 0);

function drawParts(table, data) {
    const bars = data.rows.map(row => barsOf(BARS, data.columns, row)), most = Math.max(...bars.map(sumOf)) || 1;
    add(table.tHead.rows[0], 'th', {scope: 'col'});
    bars.forEach((row, r) => {
        const svg = add(add(table.tBodies[0].rows[r], 'td', {class: 'drawn'}), 'svg', {width: '100%', height: 14});
        drawBars(svg, row, most, 14);
    });
    const names = data.columns.map(column => column.name).filter(name => BARS[name]);
    legend(table.parentElement, names.map(name => [BARS[name], name]));
}

// A table of one row as one bar, above it: what a whole is made of.
const WHOLE = {Start: 'before', Training: 'backward', Evaluation: 'early', Checkpoints: 'late', Other: 'mark',
               'After the last step': 'ranks'};

function drawWhole(table, data) {
    const place = placeAbove(table), bars = barsOf(WHOLE, data.columns, data.rows[0]);
    drawBars(add(place, 'svg', {class: 'whole', role: 'img', 'aria-label': data.title}), bars, sumOf(bars) || 1, 18);
    legend(place, bars.map(([colour, name, value]) => [colour, `${name}: ${figure('time', value)}`]));
}

// ---- curves ----

function drawCurve(table, data) {
    const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [190, 72, 8, 10, 22], kind = data.columns[1].kind;
    const isTime = kind === 'time', place = placeAbove(table);
    const rows = data.rows.map(([step, value, mark, low = value, high = value]) => [step, value, low, high, mark]);
    const steps = rows.map(row => row[0]), first = steps[0], last = steps.at(-1);
    const known = rows.filter(row => row[1] !== null), column = i => known.map(row => row[i]);
    if (known.length === 0)
        return;
    const axis = axisOf(column(1), Math.min(...column(2)), Math.max(...column(3)), isTime);
    // From gap to gap.
    const runs = [[]];
    rows.forEach(row => row[1] === null ? runs.push([]) : runs.at(-1).push(row));
    let across;
    const down = value => TOP + (HEIGHT - TOP - BOTTOM) * (1 - axis.of(value));
    const point = (row, column) => across(row[0]).toFixed(1) + ' ' + down(row[column]).toFixed(1);
    const path = (rows, column) => rows.map(row => point(row, column)).join('L');
    const draw = (svg, width) => {
        const right = width - RIGHT;
        across = step => LEFT + (right - LEFT) * (last > first ? (step - first) / (last - first) : 0.5);
        for (const value of axis.ticks) {
            add(svg, 'line', {class: 'grid', x1: LEFT, x2: right, y1: down(value), y2: down(value)});
            add(svg, 'text', {x: LEFT - 8, y: down(value) + 4, 'text-anchor': 'end'}, figure(kind, value));
        }
        for (const step of ticks(first, last, 4).filter(Number.isInteger)) {
            const x = clamp(across(step), LEFT, width - 30);
            add(svg, 'text', {x, y: HEIGHT - 6, 'text-anchor': 'middle'}, step.toLocaleString('en-US'));
        }
        for (const run of runs.filter(run => run.length > 0)) {
            add(svg, 'path', {class: 'band', d: `M${path(run, 3)}L${path([...run].reverse(), 2)}`});
            add(svg, 'path', {class: 'curve', d: `M${path(run, 1)}`});
        }
        for (const row of known.filter(row => row[4] || runs.some(run => run.length === 1 && run[0] === row)))
            add(svg, 'circle', {style: fill(row[4] ? 'mark' : 'curve'), cx: across(row[0]), cy: down(row[1]), r: 3});
    };
    picture(place, HEIGHT, data.title, draw, (_, x) => {
        const distance = row => Math.abs(across(row[0]) - x);
        const [step, value, low, high, mark] = known.reduce((a, b) => distance(b) < distance(a) ? b : a);
        const band = low < high ? ` (${figure(kind, low)} to ${figure(kind, high)})` : '';
        return `step ${step.toLocaleString('en-US')}: ${figure(kind, value)}${band}\n${mark}`.trim();
    });
    if (axis.isLogarithmic)
        add(place, 'p', {class: 'caption'}, 'The axis of times is logarithmic: some are far above the others.');
    legend(place, [...new Set(known.map(row => row[4]))].filter(mark => mark).map(mark => ['mark', mark]));
}

// ---- the timeline of one step: rows of its table, in the order of ranks and tracks ----

const PARTS = {
    'before backward': 'before', backward: 'backward', 'waits for other ranks': 'ranks',
    'exposed communication': 'network', 'all-reduce, begun during backward': 'early',
    'all-reduce, begun after backward': 'late'};

function drawTimeline(table, data) {
    const [ROW, BAR, NAME, GAP, BOTTOM, ZOOM] = [24, 16, 18, 8, 24, 1.5], place = placeAbove(table);
    const slices = data.rows.map(([rank, track, name, part, begin, takes, ready], r) => {
        const cells = [...table.tBodies[0].rows[r].cells].map(cell => cell.textContent);
        const known = cells.map((text, c) => text && text !== '-' ? [`${data.columns[c].name}: ${text}`] : []);
        return {rank, track, part, begin, end: begin + takes, ready, text: known.flat().join('\n')};
    });
    const lanes = new Map(); // how far down the row of a rank's track is, or the rank's name
    let height = 4;
    for (const {rank, track} of slices) {
        if (!lanes.has(rank)) {
            height += lanes.size > 0 ? GAP : 0;
            lanes.set(rank, height);
            height += NAME;
        }
        if (!lanes.has(rank + track)) {
            lanes.set(rank + track, height);
            height += ROW;
        }
    }
    const own = slices.filter(slice => slice.track === slices[0].track); // others may begin before it
    const first = Math.min(...own.map(slice => slice.begin));
    const last = Math.max(...own.map(slice => slice.end), first + 1);
    let from = first, to = last, width;
    const across = us => clamp(width * (us - from) / (to - from), -2, width + 2);
    legend(place, Object.entries(PARTS).filter(([part]) => slices.some(slice => slice.part === part))
        .map(([part, colour]) => [colour, part]));
    const tools = add(place, 'div', {class: 'tools'});
    const draw = (svg, now) => {
        width = now;
        for (const us of ticks(from - first, to - first, Math.max(2, Math.floor(width / 130)))) {
            const x = across(us + first), anchor = x < 30 ? 'start' : x > width - 40 ? 'end' : 'middle';
            add(svg, 'line', {class: 'grid', x1: x, x2: x, y1: 0, y2: height});
            add(svg, 'text', {class: 'tick', x, y: height + 16, 'text-anchor': anchor}, figure('time', us));
        }
        for (const slice of slices.filter(slice => slice.end >= from && slice.begin <= to)) {
            const y = lanes.get(slice.rank + slice.track), x = across(slice.begin), end = across(slice.end);
            const style = fill(PARTS[slice.part]), ready = slice.ready;
            add(svg, 'rect', {style, x, y, width: Math.max(end - x, 1), height: BAR}).slice = slice;
            if (ready !== null && ready >= from)
                add(svg, 'line', {class: 'ready', x1: across(ready), x2: x, y1: y - ROW + BAR, y2: y}).slice = slice;
        }
        for (const rank of new Set(slices.map(slice => slice.rank)))
            add(svg, 'text', {class: 'lane', x: 0, y: lanes.get(rank) + 13}, `rank ${rank}`);
    };
    const chart = picture(place, height + BOTTOM, 'Timeline of one step', draw, target => target.slice?.text ?? '');
    // Shows `scale` times as much as now, with what is at `at` where it is, `by` of the width further on.
    const move = (scale, at = 0.5, by = 0) => {
        const span = clamp((to - from) * scale, (last - first) / 1e4, last - first);
        from = clamp(from + at * (to - from - span) + by * span, first, last - span);
        to = from + span;
        chart.redraw();
    };
    const moves = {'+': ['zoom in', 1 / ZOOM], '-': ['zoom out', ZOOM], Home: ['whole step', Infinity],
                   ArrowLeft: ['earlier', 1, 0.5, -0.25], ArrowRight: ['later', 1, 0.5, 0.25]};
    for (const [name, ...how] of Object.values(moves))
        add(tools, 'button', {type: 'button'}, name).addEventListener('click', () => move(...how));
    chart.svg.setAttribute('tabindex', 0);
    chart.svg.addEventListener('keydown', event => {
        if (event.key in moves) {
            event.preventDefault();
            move(...moves[event.key].slice(1));
        }
    });
    chart.svg.addEventListener('wheel', event => {
        event.preventDefault();
        move(event.deltaY > 0 ? ZOOM : 1 / ZOOM, chart.placeOf(event) / width);
    }, {passive: false});
}

// ---- all of it ----

const tables = report.sections.flatMap(section => section.tables ?? []);
const DRAW = {timeline: drawTimeline, curve: drawCurve, parts: drawParts, whole: drawWhole};
document.querySelectorAll('table').forEach((table, i) => {
    sortable(table, tables[i]);
    DRAW[tables[i].drawn]?.(table, tables[i]);
});
