/* chart.c - see html.h. */
#include "tools/page/html.h"

#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_POINTS = 480, MOST_MARKS = 400, UNITS = 1000, TOP = 16, BOTTOM = 22, AXIS = 76, MOST_TICKS = 20 };

void
chart_open(FILE *out, const char *id, const char *kind, int height, const char *title, const char *description)
{
    html_put(out, "<svg class='%s' width='100%%' height='%d' role='img' aria-labelledby='%s-t %s-d'><title id='%s-t'>",
             kind, height, id, id, id);
    html_text(out, title);
    html_put(out, "</title><desc id='%s-d'>", id);
    html_text(out, description);
    html_put(out, "</desc>\n");
}

void
chart_legend(FILE *out, const char *kind, bool is_line, const char *meaning)
{
    html_put(out, "<span class='key'><svg class='swatch' width='12' height='12' aria-hidden='true'>");
    html_put(out,
             is_line ? "<line class='%s' x1='6' x2='6' y1='0' y2='12'/></svg>%s</span>\n"
                     : "<rect class='%s' width='12' height='12' rx='2'/></svg>%s</span>\n",
             kind, meaning);
}

void
chart_legend_of_step(FILE *out)
{
    chart_legend(out, "before", false, "before backward");
    chart_legend(out, "backward", false, "backward");
    chart_legend(out, "network", false, "exposed communication");
    chart_legend(out, "ranks", false, "waits for other ranks");
}

double
chart_tick(double most, int least_count)
{
    double most_tick = most / least_count, tick = pow(10, floor(log10(most_tick)));
    if (!(most > 0) || !isfinite(tick) || tick <= 0)
        return 1;
    return 5 * tick <= most_tick ? 5 * tick : 2 * tick <= most_tick ? 2 * tick : tick;
}

/* With as many digits as it takes to tell ticks apart. */
static const char *
number_text(double value, double tick, char text[FIGURE_BYTES])
{
    enum { SIGNIFICANT_DIGITS = 7 };
    bool is_small = fabs(value) < 1e7 && tick >= 1e-9;
    int digits = is_small ? (int)fmax(ceil(-log10(tick) - 1e-9), 0) : SIGNIFICANT_DIGITS;
    snprintf(text, FIGURE_BYTES, is_small ? "%.*f" : "%.*g", digits, value);
    return text;
}

/* ---- a curve ---- */

/* Of the greatest value: with less, the picture is that of a value that stays. */
#define LEAST_HEIGHT 1e-6

/* What is drawn: at most MOST_POINTS, each of several points. */
struct points {
    double *x, *y, *low, *high; /* all of them in the memory of x */
    size_t count;
    double first, last, bottom, top; /* of the picture */
};

static double
at_or(const double *values, size_t i, double other)
{
    return values != NULL ? values[i] : other;
}

/* Points first..last-1 of the curve as one: its middle, its least and its greatest. */
static void
add_point(const struct curve *curve, size_t first, size_t last, struct points *points)
{
    size_t at = points->count++, known = 0;
    double sum = 0;
    points->low[at] = INFINITY;
    points->high[at] = -INFINITY;
    for (size_t i = first; i < last; ++i) {
        if (isnan(curve->y[i]))
            continue;
        sum += curve->y[i];
        ++known;
        points->low[at] = fmin(points->low[at], at_or(curve->low, i, curve->y[i]));
        points->high[at] = fmax(points->high[at], at_or(curve->high, i, curve->y[i]));
    }
    points->x[at] = curve->x[first + (last - first) / 2];
    points->y[at] = known > 0 ? sum / (double)known : NAN;
}

static void
find_extent(const struct curve *curve, struct points *points)
{
    points->bottom = INFINITY;
    points->top = -INFINITY;
    for (size_t i = 0; i < points->count; ++i) {
        points->bottom = fmin(points->bottom, points->low[i]);
        points->top = fmax(points->top, points->high[i]);
    }
    if (!(points->top >= points->bottom)) /* nothing is known */
        points->bottom = points->top = 0;
    points->bottom = curve->from_zero ? 0 : points->bottom;
    points->top = isnan(curve->top) ? points->top : fmin(points->top, curve->top);
    double height = points->top - points->bottom;
    if (!(height > LEAST_HEIGHT * fabs(points->top)))
        height = fabs(points->top) > 0 ? fabs(points->top) : 1;
    points->top += 0.04 * height;
    points->bottom -= curve->from_zero ? 0 : 0.04 * height;
    points->first = curve->count > 0 ? curve->x[0] : 0;
    points->last = curve->count > 0 ? curve->x[curve->count - 1] : 1;
}

static void
take_points(const struct curve *curve, struct points *points)
{
    size_t each = (curve->count + MOST_POINTS - 1) / MOST_POINTS;
    points->x = xcalloc(4 * MOST_POINTS, sizeof(double));
    points->y = points->x + MOST_POINTS;
    points->low = points->y + MOST_POINTS;
    points->high = points->low + MOST_POINTS;
    points->count = 0;
    for (size_t i = 0; i < curve->count; i += each)
        add_point(curve, i, i + each < curve->count ? i + each : curve->count, points);
    find_extent(curve, points);
}

static double
across(const struct points *points, double x)
{
    return points->last > points->first ? UNITS * (x - points->first) / (points->last - points->first) : UNITS / 2.0;
}

/* From the top; what is above the picture ends a little above it. */
static double
down(const struct points *points, double y)
{
    return UNITS * fmax((points->top - y) / (points->top - points->bottom), -0.1);
}

static void
draw_line(FILE *out, const struct points *points)
{
    bool pen_down = false;
    fputs("<path class='curve' vector-effect='non-scaling-stroke' d='", out);
    for (size_t i = 0; i < points->count; ++i) {
        if (!isnan(points->y[i]))
            fprintf(out, "%s%.0f %.0f", pen_down ? "L" : "M", across(points, points->x[i]), down(points, points->y[i]));
        pen_down = !isnan(points->y[i]);
    }
    fputs("'/>\n", out);
}

/* Points without a neighbour, which no line shows. */
static void
draw_dots(FILE *out, const struct curve *curve, const struct points *points)
{
    int plot = curve->height - TOP - BOTTOM;
    for (size_t i = 0; i < points->count; ++i) {
        bool before = i > 0 && !isnan(points->y[i - 1]), after = i + 1 < points->count && !isnan(points->y[i + 1]);
        if (!isnan(points->y[i]) && !before && !after)
            html_put(out, "<circle class='plain' cx='%.2f%%' cy='%.1f' r='3'/>\n",
                     across(points, points->x[i]) * 100 / UNITS, TOP + plot * down(points, points->y[i]) / UNITS);
    }
}

static void
draw_marks(FILE *out, const struct curve *curve, const struct points *points)
{
    int plot = curve->height - TOP - BOTTOM;
    char text[FIGURE_BYTES];
    for (size_t i = 0; i < curve->mark_count && i < MOST_MARKS; ++i) {
        const struct chart_mark *mark = &curve->marks[i];
        double x = across(points, mark->x) * 100 / UNITS;
        if (mark->x < points->first || mark->x > points->last)
            continue;
        if (isnan(mark->y))
            html_put(out, "<line class='%s' x1='%.2f%%' x2='%.2f%%' y1='%d' y2='%d'>", mark->kind, x, x, TOP,
                     TOP + plot);
        else
            html_put(out, "<circle class='%s' cx='%.2f%%' cy='%.1f' r='3'>", mark->kind, x,
                     TOP + plot * down(points, mark->y) / UNITS);
        html_put(out, "<title>step %s</title></%s>\n", figure_count((uint64_t)mark->x, text),
                 isnan(mark->y) ? "line" : "circle");
    }
}

static void
draw_band(FILE *out, const struct points *points)
{
    bool first = true;
    fputs("<path class='band' d='", out);
    for (size_t i = 0; i < points->count; ++i) {
        if (isnan(points->y[i]))
            continue;
        fprintf(out, "%s%.0f %.0f", first ? "M" : "L", across(points, points->x[i]), down(points, points->high[i]));
        first = false;
    }
    for (size_t i = points->count; i-- > 0;) {
        if (!isnan(points->y[i]))
            fprintf(out, "L%.0f %.0f", across(points, points->x[i]), down(points, points->low[i]));
    }
    fputs("'/>\n", out);
}

/* Lines, or their labels, which stand beside the picture. */
static void
draw_grid(FILE *out, const struct curve *curve, const struct points *points, bool labels)
{
    int plot = curve->height - TOP - BOTTOM;
    char text[FIGURE_BYTES];
    double tick = chart_tick(points->top - points->bottom, plot < 100 ? 2 : 3);
    for (int i = 0; i < MOST_TICKS; ++i) {
        double y = (ceil(points->bottom / tick) + i) * tick;
        if (y > points->top)
            break;
        double place = TOP + plot * (points->top - y) / (points->top - points->bottom);
        if (!labels)
            html_put(out, "<line class='grid' x1='0' x2='100%%' y1='%.1f' y2='%.1f'/>\n", place, place);
        else
            html_put(out, "<text class='tick' x='%d' y='%.1f' text-anchor='end'>%s</text>\n", AXIS - 8, place + 4,
                     curve->is_time ? figure_time(y, text) : number_text(fabs(y) < tick / 1e3 ? 0 : y, tick, text));
    }
}

static void
draw_x_names(FILE *out, const struct curve *curve, const struct points *points)
{
    char text[FIGURE_BYTES];
    double middle = (points->first + points->last) / 2;
    int y = curve->height - 6;
    if (points->last > points->first) {
        html_put(out, "<text class='tick' x='0' y='%d'>step %s</text>\n", y,
                 figure_count((uint64_t)points->first, text));
        html_put(out, "<text class='tick' x='100%%' y='%d' text-anchor='end'>%s</text>\n", y,
                 figure_count((uint64_t)points->last, text));
    }
    html_put(out, "<text class='tick' x='50%%' y='%d' text-anchor='middle'>%s</text>\n", y,
             figure_count((uint64_t)middle, text));
}

void
chart_curve(FILE *out, const struct curve *curve)
{
    struct points points;
    take_points(curve, &points);
    html_put(out, "<div class='plot'><svg class='axis' width='%d' height='%d' aria-hidden='true'>\n", AXIS,
             curve->height);
    draw_grid(out, curve, &points, true);
    fputs("</svg>", out);
    chart_open(out, curve->id, "chart", curve->height, curve->title, curve->description);
    draw_grid(out, curve, &points, false);
    html_put(out, "<svg x='0' y='%d' width='100%%' height='%d' viewBox='0 0 %d %d' preserveAspectRatio='none'>\n", TOP,
             curve->height - TOP - BOTTOM, UNITS, UNITS);
    if (points.count < curve->count || curve->low != NULL)
        draw_band(out, &points);
    draw_line(out, &points);
    fputs("</svg>\n", out);
    draw_dots(out, curve, &points);
    draw_marks(out, curve, &points);
    draw_x_names(out, curve, &points);
    fputs("</svg></div>\n", out);
    free(points.x);
}

/* ---- bars ---- */

void
chart_bar_cell(FILE *out, const struct bar_part *parts, size_t count)
{
    double x = 0;
    fputs("<td class='bar'><svg width='100%' height='14' aria-hidden='true'>", out);
    for (size_t i = 0; i < count; ++i) {
        if (!(parts[i].percent > 0))
            continue;
        html_put(out, "<rect class='%s' x='%.2f%%' width='%.2f%%' height='14'><title>%s</title></rect>", parts[i].kind,
                 x, fmin(parts[i].percent, 100 - x), parts[i].name);
        x += parts[i].percent;
    }
    fputs("</svg></td>", out);
}
