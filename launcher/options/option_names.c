/*
 * option_names.c - the option that was probably meant by a name (option_table.h).
 */
#include "launcher/options/option_table.h"

#include <string.h>

/* Letters to insert, drop or change to make one word of the other; neighbours that changed places count once (optimal
 * string alignment). Words longer than the table are far from everything. */
static unsigned
distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    unsigned d[MOST + 1][MOST + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > MOST || n > MOST)
        return MOST;
    for (size_t i = 0; i <= m; ++i) {
        for (size_t j = 0; j <= n; ++j) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[m][n];
}

const char *
option_nearest_name(const char *name)
{
    return option_nearest_name_within(name, 1 + (unsigned)strlen(name) / 3); /* farther is no typing error */
}

const char *
option_nearest_name_within(const char *name, unsigned most)
{
    const char *nearest = NULL;
    unsigned least = most;
    for (int i = 0; i < option_row_count; ++i) {
        unsigned far = distance(name, option_rows[i].name);
        if (far <= least && (nearest == NULL || far < least)) {
            nearest = option_rows[i].name;
            least = far;
        }
    }
    return nearest;
}
