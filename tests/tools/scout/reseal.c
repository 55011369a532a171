/*
 * reseal.c - reseal PLAN: a plan that a test has changed gets the hash of what it holds, so that the plan's proofs are
 * what must refuse it.
 */
#include "tools/plan/format/play_json.h"

#include <json-c/json_util.h>

int
main(int argc, char **argv)
{
    struct json_object *plan = argc == 2 ? json_object_from_file(argv[1]) : NULL;
    if (plan == NULL)
        return 2;
    play_json_seal(plan);
    return json_object_to_file_ext(argv[1], plan, JSON_C_TO_STRING_PLAIN) == 0 ? 0 : 1;
}
