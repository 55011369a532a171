/*
 * html.h - writes HTML: texts from a trace, escaped, and figures with their units.
 *
 * Markup stands in the callers' formats, which hold no text from outside: that goes through html_text() and nothing
 * else. Errors of the stream are kept in it (ferror()). Any thread that owns the stream.
 */
#ifndef DDPRUN_TOOLS_PAGE_HTML_H
#define DDPRUN_TOOLS_PAGE_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FIGURE_BYTES = 40 };

/* Markup, with figures. */
void html_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text between tags or in a quoted attribute, whatever bytes it has: what means something in HTML is escaped, invalid
 * UTF-8 and control characters become '?', as in all texts, and what goes beyond 200 characters is cut. */
void html_text(FILE *out, const char *text);

/* Cells of a row: text, and a figure, which is aligned to the right. */
void html_text_cell(FILE *out, const char *text);
void html_figure_cell(FILE *out, const char *figure);

/* A section's beginning, with its heading and what it shows; its end is "</section>". The texts are markup. */
void html_section(FILE *out, const char *id, const char *heading, const char *caption);

/* A table's beginning, up to its first row: the columns are parted by |; with a # in front they are of figures. Its
 * end, and how many more of what there are than rows. */
void html_table(FILE *out, const char *label, const char *columns);
void html_table_end(FILE *out, size_t shown, size_t all, const char *what);

/* Three digits and a unit; "-" for what is not known. Each returns `text`. */
const char *figure_time(double us, char text[FIGURE_BYTES]);
const char *figure_bytes(double bytes, char text[FIGURE_BYTES]);
const char *figure_percent(double part, char text[FIGURE_BYTES]);
const char *figure_plain(double value, char text[FIGURE_BYTES]);
/* How wide it is, in characters. */
int figure_width(const char *figure);
/* A whole number with a comma for each three digits. */
const char *figure_count(uint64_t count, char text[FIGURE_BYTES]);

/* ---- style.c: the style sheet, which is all that a page has besides its content ---- */

/* For light and dark, and from 320 pixels of width on. Colours of parts differ in lightness too, for readers who do not
 * tell colours apart (after M. Okabe and K. Ito, Color Universal Design). */
extern const char page_style[];

/* ---- chart.c: pictures in a page: SVG inside the HTML, without a script ---- */
/*
 * Places along a chart's width are percent of it, so that lines and bars follow the width of the page and letters
 * keep their size; heights are pixels. Colours are classes, which style.c gives for light and dark.
 */

/* A place in the picture of a curve: a dot, or where y is NAN a line from top to bottom. */
struct chart_mark {
    const char *kind; /* its class */
    double x, y;
};

/* A curve of y over steps x, which grow; NAN is a gap. */
struct curve {
    const char *id;          /* of the picture; a word */
    const char *title;       /* text from a trace, perhaps; for readers who do not see it */
    const char *description; /* ours */
    const double *x, *y;
    const double *low, *high; /* of a band around the curve; NULL: there is none */
    size_t count;
    bool from_zero; /* the picture begins at 0 */
    double top;     /* what is above is cut; NAN: nothing is */
    int height;
    bool is_time;                   /* y is in microseconds; else a number without a unit */
    const struct chart_mark *marks; /* the first few hundred of those between the ends of x are drawn */
    size_t mark_count;
};

void chart_curve(FILE *out, const struct curve *curve);

/* A part of a bar: its class, and how many percent of the width it has. */
struct bar_part {
    const char *kind;
    double percent;
    const char *name; /* shown where the pointer is; markup */
};

/* Parts side by side, as the content of a cell. */
void chart_bar_cell(FILE *out, const struct bar_part *parts, size_t count);

/* The greatest of 1, 2, 5, 10, ... of which `most` has at least `least_count`. */
double chart_tick(double most, int least_count);

/* Begins a picture with its names, for all readers; "</svg>" ends it. */
void chart_open(FILE *out, const char *id, const char *kind, int height, const char *title, const char *description);

/* The entry of a legend: a square or, of marks from top to bottom, a line of that class, and what it means. */
void chart_legend(FILE *out, const char *kind, bool is_line, const char *meaning);
/* Of the parts of a step, as bars show them. */
void chart_legend_of_step(FILE *out);

#endif
