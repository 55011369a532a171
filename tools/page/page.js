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
const BARS = {'Before backward': 'before', Backward: 'backward', Exposed: 'network', 'Waits for ranks': 'ranks'};

function drawParts(table, data) {
    const parts = data.columns.map(column => BARS[column.name]), shown = row => row.filter((_, i) => parts[i]);
    const most = Math.max(...data.rows.map(row => shown(row).reduce((sum, value) => sum + value, 0))) || 1; // unknown: 0
    add(table.tHead.rows[0], 'th', {scope: 'col'});
    data.rows.forEach((row, r) => {
        const svg = add(add(table.tBodies[0].rows[r], 'td', {class: 'drawn'}), 'svg', {width: '100%', height: 14});
        shown(row).reduce((x, value, i) => {
            const width = 100 * value / most, style = fill(parts.filter(part => part)[i]);
            add(svg, 'rect', {style, x: x + '%', width: width + '%', height: 14});
            return x + width;
        }, 0);
    });
    legend(table.parentElement, Object.entries(BARS).map(([name, colour]) => [colour, name]));
}

// ---- curves ----

function drawCurve(table, data) {
    const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [190, 72, 8, 10, 22], kind = data.columns[1].kind;
    const isTime = kind === 'time', place = placeAbove(table);
    const rows = data.rows.map(([step, value, mark, low = value, high = value]) => [step, value, low, high, mark]);
    const steps = rows.map(row => row[0]), first = steps[0], last = steps.at(-1);
    const known = rows.filter(row => row[1] !== null), sorted = known.map(row => row[3]).sort((a, b) => a - b);
    if (known.length === 0)
        return;
    // Few times far above the others do not flatten these: what is cut is said.
    const greatest = sorted.at(-1), cut = 3 * sorted[sorted.length >> 1];
    const above = isTime && greatest > 1.5 * cut ? sorted.filter(value => value > cut).length : 0;
    const least = isTime ? 0 : Math.min(...known.map(row => row[2])), most = above > 0 ? cut : greatest;
    const height = most - least > 1e-6 * Math.abs(most) ? most - least : Math.abs(most) || 1;
    // From gap to gap.
    const runs = [[]];
    rows.forEach(row => row[1] === null ? runs.push([]) : runs.at(-1).push(row));
    let across;
    const down = value => TOP + (HEIGHT - TOP - BOTTOM) * clamp((least + height - value) / height, -0.04, 1);
    const point = (row, column) => across(row[0]).toFixed(1) + ' ' + down(row[column]).toFixed(1);
    const path = (rows, column) => rows.map(row => point(row, column)).join('L');
    const draw = (svg, width) => {
        const right = width - RIGHT;
        across = step => LEFT + (right - LEFT) * (last > first ? (step - first) / (last - first) : 0.5);
        for (const value of ticks(least, least + height, 4)) {
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
    if (above > 0)
        add(place, 'p', {class: 'caption'}, `${above} of ${known.length} points are higher than the picture.`);
    legend(place, [...new Set(known.map(row => row[4]))].filter(mark => mark).map(mark => ['mark', mark]));
}

// ---- the timeline of one step: rows of its table, in the order of ranks and tracks ----

const PARTS = {
    'before backward': 'before', backward: 'backward', 'waits for other ranks': 'ranks',
    'exposed communication': 'network', 'begins during backward': 'early', 'begins after backward': 'late'};

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
const DRAW = {timeline: drawTimeline, curve: drawCurve, parts: drawParts};
document.querySelectorAll('table').forEach((table, i) => {
    sortable(table, tables[i]);
    DRAW[tables[i].drawn]?.(table, tables[i]);
});
