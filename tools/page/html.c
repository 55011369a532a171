/*
 * html.c - see html.h.
 */
#include "tools/page/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_CHARACTERS = 200 };

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

void
html_put(FILE *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
}

/* Bytes of the well-formed UTF-8 sequence at `text` (Unicode, table 3-7) that is no control character; else 0. */
static size_t
sequence_bytes(const unsigned char *text)
{
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    if (first < 0x80)
        return first >= 0x20 && first != 0x7f;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    size_t more = first <= 0xdf ? 1 : first <= 0xef ? 2 : 3;
    low = first == 0xe0 || first == 0xc2 ? 0xa0 : first == 0xf0 ? 0x90 : low; /* 0xc2: C1 controls */
    high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    for (size_t i = 1; i <= more; ++i, low = 0x80, high = 0xbf) {
        if (text[i] < low || text[i] > high) /* the end of the text, too */
            return 0;
    }
    return 1 + more;
}

static const char *
escape_of(char letter)
{
    switch (letter) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void
html_text(FILE *out, const char *text)
{
    for (int i = 0; *text != '\0'; ++i) {
        if (i == MOST_CHARACTERS) {
            fputs("\xe2\x80\xa6", out); /* an ellipsis */
            return;
        }
        size_t bytes = sequence_bytes((const unsigned char *)text);
        const char *escape = escape_of(*text);
        if (bytes == 0)
            fputs(REPLACEMENT, out);
        else if (escape != NULL)
            fputs(escape, out);
        else
            fwrite(text, 1, bytes, out);
        text += bytes > 0 ? bytes : 1;
    }
}

void
html_text_cell(FILE *out, const char *text)
{
    fputs("<td>", out);
    html_text(out, text);
    fputs("</td>", out);
}

void
html_figure_cell(FILE *out, const char *figure)
{
    fputs("<td class='n'>", out);
    html_text(out, figure);
    fputs("</td>", out);
}

void
html_section(FILE *out, const char *id, const char *heading, const char *caption)
{
    html_put(out, "\n<section id='%s'><h2>%s</h2>\n<p class='caption'>%s</p>\n", id, heading, caption);
}

/* ---- figures ---- */

static const char *
with_unit(double value, const char *unit, char text[FIGURE_BYTES])
{
    double size = fabs(value);
    int behind = size == 0 ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    snprintf(text, FIGURE_BYTES, "%.*f%s%s", behind, value, unit[0] != '\0' ? "\xc2\xa0" : "", unit);
    return text;
}

static const char *
unknown(char text[FIGURE_BYTES])
{
    snprintf(text, FIGURE_BYTES, "-");
    return text;
}

const char *
figure_time(double us, char text[FIGURE_BYTES])
{
    if (isnan(us))
        return unknown(text);
    double size = fabs(us);
    if (size < 999.5)
        return with_unit(size < 0.05 ? 0 : us, "\xc2\xb5s", text);
    return size < 999.5e3 ? with_unit(us / 1e3, "ms", text) : with_unit(us / 1e6, "s", text);
}

const char *
figure_bytes(double bytes, char text[FIGURE_BYTES])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t at = 0;
    for (; at + 1 < sizeof(units) / sizeof(units[0]) && bytes >= 1024; ++at)
        bytes /= 1024;
    if (at > 0 || isnan(bytes))
        return isnan(bytes) ? unknown(text) : with_unit(bytes, units[at], text);
    snprintf(text, FIGURE_BYTES, "%.0f\xc2\xa0%s", bytes, units[0]);
    return text;
}

const char *
figure_percent(double part, char text[FIGURE_BYTES])
{
    if (isnan(part))
        return unknown(text);
    snprintf(text, FIGURE_BYTES, part < 0.0995 ? "%.1f\xc2\xa0%%" : "%.0f\xc2\xa0%%", part * 100);
    return text;
}

const char *
figure_plain(double value, char text[FIGURE_BYTES])
{
    if (isnan(value))
        return unknown(text);
    if (fabs(value) >= 1e5 || (value != 0 && fabs(value) < 1e-3))
        snprintf(text, FIGURE_BYTES, "%.3g", value);
    else
        snprintf(text, FIGURE_BYTES, "%.*f",
                 fabs(value) < 0.1   ? 4
                 : fabs(value) < 10  ? 2
                 : fabs(value) < 100 ? 1
                                     : 0,
                 value);
    return text;
}

const char *
figure_count(uint64_t count, char text[FIGURE_BYTES])
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), at = 0;
    for (int i = 0; i < length; ++i) {
        if (i > 0 && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}
