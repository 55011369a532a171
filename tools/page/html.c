/* html.c - see html.h. */
#include "tools/page/html.h"

#include "base/printable.h"
#include "launcher/common/xcalloc.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHARACTERS = 200 };

void
html_put(FILE *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
}

static const char *const escapes[UCHAR_MAX + 1] = {
    ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};

void
html_text(FILE *out, const char *text)
{
    char *copy = xstrdup(text);
    int characters = 0;
    printable_make(copy, "");
    for (const char *at = copy; *at != '\0'; ++at) {
        characters += (*at & 0xc0) != 0x80; /* the other bytes continue a character */
        if (characters > MOST_CHARACTERS) {
            fputs("\xe2\x80\xa6", out); /* an ellipsis */
            break;
        }
        const char *escape = escapes[(unsigned char)*at];
        if (escape != NULL)
            fputs(escape, out);
        else
            fputc(*at, out);
    }
    free(copy);
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

void
html_table(FILE *out, const char *label, const char *columns)
{
    html_put(out, "<div class='box' tabindex='0' role='region' aria-label='%s'><table>\n<thead><tr>", label);
    for (const char *name = columns, *end; name != NULL; name = *end != '\0' ? end + 1 : NULL) {
        bool is_figure = *name == '#';
        name += is_figure;
        end = name + strcspn(name, "|");
        html_put(out, "<th scope='col'%s>%.*s</th>", is_figure ? " class='n'" : "", (int)(end - name), name);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
}

void
html_table_end(FILE *out, size_t shown, size_t all, const char *what)
{
    fputs("</tbody></table></div>\n", out);
    if (all > shown)
        html_put(out, "<p class='caption'>And %zu more %s.</p>\n", all - shown, what);
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

int
figure_width(const char *figure)
{
    int width = 0;
    for (; *figure != '\0'; ++figure)
        width += ((unsigned char)*figure & 0xc0) != 0x80; /* UTF-8: what goes on in a character */
    return width;
}
