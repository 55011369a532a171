/*
 * options.c - see options.h.
 */
#include "options.h"

#include "lloyd.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] = "Usage: kmeans [options]\n"
                            "Finds 32 clusters among points in 8 dimensions, which it makes itself.\n"
                            "\n"
                            "  --points N      points, of all ranks together (default 100000)\n"
                            "  --iterations N  iterations of Lloyd's algorithm (default 20)\n"
                            "  --save FILE     write count and centroid of each cluster there at the end\n"
                            "  --quiet         print errors only\n"
                            "  --help          print this\n";

static size_t
parse_count(const char *option, const char *text, size_t least, size_t most)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < least || value > most) {
        fprintf(stderr, "kmeans: --%s %s: expected a whole number from %zu to %zu; --help lists the options\n", option,
                text, least, most);
        exit(2);
    }
    return (size_t)value;
}

struct options
options_parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"points", required_argument, NULL, 'p'}, {"iterations", required_argument, NULL, 'i'},
        {"save", required_argument, NULL, 's'},   {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    struct options options = {.points = 100000, .iterations = 20};
    for (int found; (found = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (found) {
        case 'p':
            options.points = parse_count("points", optarg, CLUSTERS, 250000);
            break;
        case 'i':
            options.iterations = parse_count("iterations", optarg, 1, 1000000);
            break;
        case 's':
            options.save = optarg;
            break;
        case 'q':
            options.quiet = true;
            break;
        case 'h':
            fputs(USAGE, stdout);
            exit(0);
        default: /* getopt has said what is wrong */
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "kmeans: %s: not an option; --help lists the options\n", argv[optind]);
        exit(2);
    }
    return options;
}
