/*
 * html.h - writes HTML: texts from a trace, escaped, and figures with their units.
 *
 * Markup stands in the callers' formats, which hold no text from outside: that goes through html_text() and nothing
 * else. Errors of the stream are kept in it (ferror()). Any thread that owns the stream.
 */
#ifndef DDPRUN_TOOLS_PAGE_HTML_H
#define DDPRUN_TOOLS_PAGE_HTML_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FIGURE_BYTES = 40 };

/* Markup, with figures. */
void html_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text between tags or in a quoted attribute, whatever bytes it has: what means something in HTML is escaped, invalid
 * UTF-8 and control characters become U+FFFD, and what goes beyond 200 characters is cut. */
void html_text(FILE *out, const char *text);

/* Cells of a row: text, and a figure, which is aligned to the right. */
void html_text_cell(FILE *out, const char *text);
void html_figure_cell(FILE *out, const char *figure);

/* A section's beginning, with its heading and what it shows; its end is "</section>". The texts are markup. */
void html_section(FILE *out, const char *id, const char *heading, const char *caption);

/* Three digits and a unit; "-" for what is not known. Each returns `text`. */
const char *figure_time(double us, char text[FIGURE_BYTES]);
const char *figure_bytes(double bytes, char text[FIGURE_BYTES]);
const char *figure_percent(double part, char text[FIGURE_BYTES]);
const char *figure_plain(double value, char text[FIGURE_BYTES]);
/* A whole number with a comma for each three digits. */
const char *figure_count(uint64_t count, char text[FIGURE_BYTES]);

/* ---- style.c: the style sheet, which is all that a page has besides its content ---- */

/* For light and dark, and from 320 pixels of width on. Colours of parts differ in lightness too, for readers who do not
 * tell colours apart (after M. Okabe and K. Ito, Color Universal Design). */
extern const char page_style[];

#endif
