/*
 * origin.c - where in the source a call stands, what it gets as an argument, and which line has made that: see
 * origin.h. By the source's text: what cannot be followed has no origin.
 */
#include "tools/check/command/origin.h"

#include "base/printable.h"
#include "tools/scout/command/report/lines.h"

/* ---- where a call stands ---- */

enum { FRAMES_AT_MOST = 8 };

/* The frames of one call, as scout has them. */
struct call_frames {
    struct scout_object objects[FRAMES_AT_MOST];
    struct scout_frame list[FRAMES_AT_MOST];
    struct scout_site site;
    struct scout_log log;
    char *copy;
};

/* False: text that is no list of frames. To be freed in any case. */
static bool
read_frames(const char *frames, struct call_frames *call)
{
    char *rest = NULL;
    uint32_t count = 0;
    *call = (struct call_frames){.copy = xstrdup(frames)};
    for (char *line = strtok_r(call->copy, "\n", &rest); line != NULL && count < FRAMES_AT_MOST;
         line = strtok_r(NULL, "\n", &rest)) {
        char *blank = strrchr(line, ' ');
        if (blank == NULL || line[0] != '/')
            break;
        *blank = '\0';
        call->objects[count] = (struct scout_object){.path = line, .build_id = ""};
        call->list[count] = (struct scout_frame){.object = count, .offset = strtoull(blank + 1, NULL, 16)};
        ++count;
    }
    call->site = (struct scout_site){.frames = call->list, .count = count};
    call->log =
        (struct scout_log){.objects = call->objects, .object_count = count, .sites = &call->site, .site_count = 1};
    return count > 0;
}

const char *
place_name(const char *frames, char *text, size_t room)
{
    struct call_frames call;
    if (read_frames(frames, &call)) {
        struct sites *sites = sites_open(&call.log);
        sites_text(sites, 0, text, room);
        sites_close(sites);
    } else {
        snprintf(text, room, "%.*s", (int)strcspn(frames, "\n"), frames);
    }
    free(call.copy);
    return text;
}

/* ---- what gives a variable its value ---- */

enum { SETTINGS_AT_MOST = 12, DEPTH_AT_MOST = 4 };

/* A variable, in the part of a source where it has this name. */
struct variable {
    const struct source *source;
    const char *name;
    size_t length;
    struct span in;
    bool is_parameter;
};

/* What sets it: the place of its name there, and an expression, or a call that gets its address. */
struct setting {
    size_t at;
    struct span value; /* empty: a call */
    bool is_share;     /* by DDP_SHARD */
};

static bool
is_span(const char *text, size_t at, size_t end, const char *word, size_t length)
{
    return end - at == length && strncmp(text + at, word, length) == 0;
}

static bool
begins(const char *text, size_t at, const char *word)
{
    return strncmp(text + at, word, strlen(word)) == 0;
}

/* The token there is "." or the end of "->". */
static bool
is_link(const char *text, size_t at)
{
    return text[at] == '.' || (text[at] == '>' && at > 0 && text[at - 1] == '-');
}

/* The variable that has the name at a place: of the innermost block that declares it, a parameter, or of the file. */
static struct variable
find_variable(const struct source *source, size_t at, const char *name, size_t length)
{
    struct variable variable = {.source = source, .name = name, .length = length, .in = {0, strlen(source->text)}};
    const struct source_node *node = source_statement_at(source, at),
                             *function = node != NULL ? source_function(node) : NULL;
    if (function == NULL)
        return variable;
    size_t body = source_block(function)->begin;
    for (size_t i = function->begin, end; i < body; i = source_skip(source->text, end)) {
        end = source_token(source->text, i);
        if (is_span(source->text, i, end, name, length) &&
            !strchr("(<", source->text[source_skip(source->text, end)])) {
            variable.in = (struct span){function->begin, function->end};
            variable.is_parameter = true;
        }
    }
    FOR_EACH_NODE(it, source->first) {
        const struct source_node *around = it->is_loop || it->parent == NULL ? it : it->parent;
        if (it->begin > body && it->begin <= at && at < around->end && !it->is_block && lift_declares(it, name, length))
            variable = (struct variable){source, name, length, {around->begin, around->end}, false};
    }
    return variable;
}

/* Up to the comma, semicolon or bracket that ends an expression. */
static struct span
expression_at(const char *text, size_t at)
{
    struct span span = {source_skip(text, at), at};
    for (at = span.begin; text[at] != '\0' && strchr(",;)]}", text[at]) == NULL; at = source_skip(text, span.end))
        span.end = strchr("([{", text[at]) != NULL ? source_close(text, at) : source_token(text, at);
    return span;
}

/* Behind the members and elements of a variable: ".x[3]". */
static size_t
behind_parts(const char *text, size_t at)
{
    for (at = source_skip(text, at);; at = source_skip(text, at)) {
        if (text[at] == '[')
            at = source_close(text, at);
        else if (text[at] == '.' || begins(text, at, "->"))
            at = source_token(text, source_skip(text, at + (text[at] == '.' ? 1 : 2)));
        else
            return at;
    }
}

/* Whether what is called between two places gives no value to what it gets by a pointer: an allocation, or cuBLAS,
 * which only reads alpha. */
static bool
only_reads(const char *text, size_t begin, size_t end)
{
    static const char *const results[] = {"nrm2", "dot", "asum", "amax", "amin"};
    const char *call = memmem(text + begin, end - begin, "cublas", strlen("cublas"));
    return memmem(text + begin, end - begin, "lloc", strlen("lloc")) != NULL ||
           (call != NULL && !ANY(it, results, sizeof(results) / sizeof(results[0]),
                                 memmem(call, strcspn(call, "("), *it, strlen(*it))));
}

static size_t
list_settings(const struct variable *variable, struct setting list[SETTINGS_AT_MOST])
{
    const char *text = variable->source->text;
    size_t count = 0, last[3] = {0}, end;
    for (size_t at = source_skip(text, variable->in.begin); at < variable->in.end && count < SETTINGS_AT_MOST;
         last[2] = last[1], last[1] = last[0], last[0] = at, at = source_skip(text, end)) {
        end = source_token(text, at);
        if (!is_span(text, at, end, variable->name, variable->length) ||
            (is_link(text, last[0]) && variable->in.begin > 0)) /* else it may be a class's */
            continue;
        size_t next = behind_parts(text, end), sign = next + (strchr("+-*/%", text[next]) != NULL);
        bool is_declared = source_is_word(text[last[0]]) && !begins(text, last[0], "return"),
             passes = text[last[0]] == '&' && strchr("(,", text[last[1]]) != NULL,
             fills = text[last[0]] == '(' && begins(text, last[1], "cudaMemcpy");
        struct setting setting = {.at = at};
        if (text[sign] == '=' && text[sign + 1] != '=')
            setting.value = expression_at(text, sign + 1);
        else if (is_declared && strchr("({", text[next]) != NULL && text[next] != '\0' && at > variable->in.begin)
            setting.value = (struct span){next + 1, source_close(text, next) - 1};
        const struct source_node *node = source_statement_at(variable->source, at);
        size_t begin = node != NULL ? node->begin : at;
        if (setting.value.end == 0 && ((!passes && !fills) || only_reads(text, begin, at)))
            continue;
        setting.is_share = setting.value.end == 0 && memmem(text + begin, at - begin, "DDP_SHARD", 9) != NULL;
        list[count++] = setting;
    }
    return count;
}

/* The next place from `at` on that has the name, after *last_p; in.end or more: none has. */
static size_t
find_name(const struct variable *variable, size_t at, size_t *last_p)
{
    const char *text = variable->source->text;
    size_t end = at;
    for (*last_p = at, at = source_skip(text, at); at < variable->in.end; *last_p = at, at = source_skip(text, end)) {
        end = source_token(text, at);
        if (is_span(text, at, end, variable->name, variable->length))
            break;
    }
    return at;
}

/* What it points to may have any value. */
static bool
is_pointer(const struct variable *variable)
{
    size_t last, at = find_name(variable, variable->in.begin, &last); /* where it is declared */
    return at < variable->in.end && variable->source->text[last] == '*';
}

static bool may_differ(const struct variable *variable, int depth);

/* Of an expression, with the names of a place in a source. */
struct said {
    const char *text;
    struct span span;
    const struct source *source;
    size_t at;
};

/* Whether it may have another value on a rank, whatever `but` has. `only`: the first of its variables that may, and how
 * many do. */
static bool
expression_differs(const struct said *said, const struct variable *but, int depth, struct variable *only,
                   size_t *count_p)
{
    static const char *const pure =
        " sizeof float double int long size_t unsigned static_cast sqrt sqrtf pow powf exp expf log logf min max fminf "
        "fmaxf fmin fmax cos cosf sin sinf tanh tanhf fabs fabsf abs floor ceil round lround clamp std DDP_WORLD_SIZE ";
    const char *text = said->text;
    bool differs = false;
    size_t last = said->span.begin, end;
    for (size_t at = source_skip(text, last); at < said->span.end; last = at, at = source_skip(text, end)) {
        end = source_token(text, at);
        char word[LIFT_BYTES];
        if ((!isalpha((unsigned char)text[at]) && text[at] != '_') || (last < at && is_link(text, last)) ||
            snprintf(word, sizeof(word), " %.*s ", (int)(end - at), text + at) >= LIFT_BYTES)
            continue;
        if (strstr(pure, word) != NULL || text[source_skip(text, end)] == '(') {
            differs = differs || strstr(pure, word) == NULL || strcmp(word, " DDP_WORLD_SIZE ") == 0;
            continue; /* a function may return anything */
        }
        if (but != NULL && is_span(text, at, end, but->name, but->length))
            continue;
        struct variable variable =
            find_variable(said->source, text == said->source->text ? at : said->at, text + at, end - at);
        bool is_any = is_pointer(&variable);
        if (!is_any && !may_differ(&variable, depth + 1))
            continue;
        differs = true;
        if (is_any && count_p != NULL) /* no variable alone */
            *count_p += 2;
        if (only == NULL || (*count_p > 0 && is_span(text, at, end, only->name, only->length)))
            continue;
        *only = *count_p == 0 ? variable : *only;
        ++*count_p;
    }
    return differs;
}

static bool
setting_differs(const struct variable *variable, const struct setting *setting, int depth)
{
    struct said said = {variable->source->text, setting->value, variable->source, setting->at};
    return said.span.end <= said.span.begin || expression_differs(&said, variable, depth, NULL, NULL);
}

static bool
may_differ(const struct variable *variable, int depth)
{
    struct setting list[SETTINGS_AT_MOST];
    size_t count = depth < DEPTH_AT_MOST ? list_settings(variable, list) : 0;
    return variable->is_parameter || depth >= DEPTH_AT_MOST ||
           ANY(it, list, count, setting_differs(variable, it, depth));
}

/* A setting after the statement that uses it counts if a loop is around both, and not around the variable. */
static bool
reaches(const struct variable *variable, size_t set, size_t use)
{
    const struct source_node *node = source_statement_at(variable->source, set);
    bool is_around = false;
    if (node != NULL && node->begin == use)
        return false;
    for (; node != NULL; node = node->parent)
        is_around = is_around || (node->is_loop && node->begin > variable->in.begin && node->begin < use);
    return variable->in.begin == 0 || set < use || is_around;
}

/* The condition of the innermost statement around a place, within a part of the source, that may have another value,
 * whatever `but` has: what a variable is limited to makes no value of its own. */
static bool
find_condition(const struct source *source, size_t at, struct span in, const struct variable *but, struct said *said)
{
    for (const struct source_node *node = source_statement_at(source, at); node != NULL; node = node->parent) {
        size_t begin = node->begin, open = source_skip(source->text, source_token(source->text, begin));
        bool decides = begins(source->text, begin, "if") || begins(source->text, begin, "while");
        *said = (struct said){source->text, {open + 1, source_close(source->text, open) - 1}, source, begin};
        if (begin < in.begin)
            return false;
        if (decides && source->text[open] == '(' && expression_differs(said, but, 0, NULL, NULL))
            return true;
    }
    return false;
}

/* Those by which it may differ where it is used: by their values, or by a condition. */
static size_t
list_causes(const struct variable *variable, size_t use, struct setting list[SETTINGS_AT_MOST])
{
    struct setting all[SETTINGS_AT_MOST];
    struct said condition;
    size_t known = list_settings(variable, all), count = 0;
    FOR_EACH(it, all, known < SETTINGS_AT_MOST ? known : 0)
        if (reaches(variable, it->at, use) &&
            (setting_differs(variable, it, 0) ||
             find_condition(variable->source, it->at, variable->in, variable, &condition)))
            list[count++] = *it;
    return count;
}

/* False: which of several is not known. */
static bool
find_setting(const struct variable *variable, size_t use, struct setting *setting)
{
    struct setting list[SETTINGS_AT_MOST];
    bool is_one = list_causes(variable, use, list) == 1;
    *setting = list[0];
    return is_one;
}

static void
name_line(const struct source *source, size_t at, char text[ORIGIN_PLACE_BYTES])
{
    const char *slash = strrchr(source->path, '/');
    snprintf(text, ORIGIN_PLACE_BYTES, "%.100s:%d", slash != NULL ? slash + 1 : source->path, source_line(source, at));
}

/* "inv" of "&inv", "(float)inv", "static_cast<float>(inv)", "this->inv"; of "adam.rate" it is "rate". Empty: it is no
 * variable. */
static struct span
bare_name(const char *text, struct span said, bool *is_member_p)
{
    static const char cast[] = "static_cast<";
    size_t end = said.end - (begins(text, said.begin, cast) && text[said.end - 1] == ')'), at = end, name = end;
    while (at > said.begin && (source_is_word(text[at - 1]) || is_link(text, at - 1) || begins(text, at - 1, "->")))
        --at;
    while (name > at && source_is_word(text[name - 1]))
        --name;
    *is_member_p = name > at && !begins(text, at, "this->");
    bool is_name = name < end && !isdigit((unsigned char)text[name]) &&
                   (at == said.begin || (at == said.begin + 1 && text[at - 1] == '&') ||
                    (text[said.begin] == '(' && source_close(text, said.begin) == at) ||
                    (begins(text, said.begin, cast) && source_skip_angles(text, said.begin + 11, end) + 1 == at));
    return (struct span){name, is_name ? end : name};
}

/* DDP_SHARD has set it, or what it is a copy of. */
static bool
is_share(const struct variable *variable, const struct setting *setting)
{
    const char *text = variable->source->text;
    size_t sign = behind_parts(text, setting->at + variable->length); /* "+=" makes no copy */
    bool is_member, has_value = setting->value.end > setting->value.begin && text[sign] == '=';
    struct span name = has_value ? bare_name(text, setting->value, &is_member) : (struct span){0};
    struct variable of = find_variable(variable->source, setting->at, text + name.begin, name.end - name.begin);
    struct setting next;
    return setting->is_share ||
           (name.end > name.begin && !is_member && find_setting(&of, setting->at, &next) && next.is_share);
}

/* The frames of a call, at one of them. */
struct trail {
    struct sources *sources;
    const struct site_place *list;
    uint32_t count, frame;
};

/* The text of the frame's statement and of names in it; `said->text` stays. False: not known. */
static bool
stand_at(const struct trail *trail, struct said *said)
{
    const struct site_place *at = &trail->list[trail->frame];
    said->source = sources_open(trail->sources, at->file);
    const struct source_node *node = said->source != NULL ? source_statement(said->source, at->line, at->column) : NULL;
    said->at = node != NULL ? node->begin : 0;
    return node != NULL;
}

/* Appends ", computed from `seen` (train.cu:12)", and ", which is computed from ..." for `seen`. */
static void
add_sources(struct trail trail, const struct said *said, const struct variable *but, int depth, struct origin *origin)
{
    char *from = origin->from;
    struct variable only = {.name = ""};
    struct setting next;
    size_t count = 0;
    char place[ORIGIN_PLACE_BYTES], expression[LIFT_BYTES];
    struct said outer = {.text = expression};
    (void)expression_differs(said, but, 0, &only, &count);
    if (count != 1 || depth == 3 || strlen(from) > ORIGIN_FROM_BYTES - 200)
        return;
    const char *join = depth == 0 ? ", computed from" : ", which is computed from";
    printable_append(from, ORIGIN_FROM_BYTES, "%s `%.*s`", join, (int)(only.length < 60 ? only.length : 60), only.name);
    if (only.is_parameter) {
        snprintf(expression, sizeof(expression), "%.*s", (int)only.length, only.name);
        if (++trail.frame >= trail.count || !lift_up(trail.sources, trail.list, trail.frame, expression) ||
            !stand_at(&trail, &outer))
            return;
        name_line(outer.source, outer.at, place);
        printable_append(from, ORIGIN_FROM_BYTES, ", passed as `%.60s` (%s)", expression, place);
        outer.span = (struct span){0, strlen(expression)};
        add_sources(trail, &outer, NULL, depth + 1, origin);
    } else if (find_setting(&only, said->at, &next) && !(origin->is_share = is_share(&only, &next))) {
        name_line(only.source, next.at, place);
        printable_append(from, ORIGIN_FROM_BYTES, " (%s)", place);
        outer = (struct said){only.source->text, next.value, only.source, next.at};
        if (next.value.end > next.value.begin)
            add_sources(trail, &outer, &only, depth + 1, origin);
    }
}

/* The argument, as the innermost frame of the program's that has it says; the trail stands there. False: none does. */
static bool
find_argument(struct trail *trail, uint32_t number, char said[LIFT_BYTES])
{
    for (uint32_t i = 0; i < trail->count && i < 2; ++i) { /* the kernel's own line may be one */
        const struct site_place *list = trail->list;
        const struct source *source = sources_open(trail->sources, list[i].file);
        const struct source_node *node = source != NULL ? source_statement(source, list[i].line, list[i].column) : NULL;
        const char *line = source != NULL ? source->text + source_place(source, list[i].line, 1) : "",
                   *first = strstr(line, ");"), *next = first != NULL ? strstr(first + 1, ");") : NULL;
        bool is_alone = next == NULL || next > line + strcspn(line, "\n"); /* else it is not known which it is */
        bool is_choice = false;
        trail->frame = i;
        if (node != NULL && is_alone && lift_argument(node, number, said, &is_choice) && !is_choice)
            return true;
    }
    return false;
}

static bool
follow(struct trail trail, uint32_t number, struct origin *origin)
{
    char expression[LIFT_BYTES];
    bool known = find_argument(&trail, number, expression), is_member;
    while (known) {
        char *bare = lift_bare(expression);
        struct said said = {.text = bare};
        if (!stand_at(&trail, &said))
            return false;
        struct span name = bare_name(bare, (struct span){0, strlen(bare)}, &is_member);
        struct variable variable = find_variable(said.source, said.at, bare + name.begin, name.end - name.begin);
        struct setting setting;
        if (name.end == name.begin) { /* an expression */
            said.span = (struct span){0, strlen(bare)};
            add_sources(trail, &said, NULL, 0, origin);
            return origin->from[0] != '\0';
        }
        if (is_member)
            variable.in = (struct span){0, strlen(said.source->text)};
        if (variable.is_parameter && !is_member) {
            known = ++trail.frame < trail.count && lift_up(trail.sources, trail.list, trail.frame, expression);
            continue;
        }
        if (!find_setting(&variable, said.at, &setting) || is_share(&variable, &setting))
            return false;
        size_t end = behind_parts(said.source->text, setting.at + variable.length); /* "options.rate" of a struct */
        bool is_part = said.source->text[setting.at + variable.length] == '.';
        while (isspace((unsigned char)said.source->text[end - 1]))
            --end;
        snprintf(origin->name, sizeof(origin->name), "%.*s", (int)(is_part ? end - setting.at : strlen(bare)),
                 is_part     ? said.source->text + setting.at
                 : is_member ? bare
                             : variable.name);
        name_line(said.source, setting.at, origin->place);
        said = (struct said){said.source->text, setting.value, said.source, setting.at};
        if (setting.value.end > setting.value.begin)
            add_sources(trail, &said, &variable, 0, origin);
        return true;
    }
    return false;
}

/* A function that is not CUDA's gets it, and may change what it holds. */
static bool
is_passed(const struct variable *variable)
{
    const char *text = variable->source->text;
    size_t last;
    for (size_t at = variable->in.begin; (at = find_name(variable, at, &last)) < variable->in.end;
         at += variable->length) {
        const struct source_node *node =
            strchr("(,", text[last]) != NULL && strchr(",)", text[source_skip(text, at + variable->length)]) != NULL
                ? source_statement_at(variable->source, at)
                : NULL;
        if (node != NULL && memmem(text + node->begin, at - node->begin, "cuda", 4) == NULL)
            return true;
    }
    return false;
}

/* The variable that a copy's argument begins with: "&batch", "x.data() + first"; text[LIFT_BYTES] has its name. */
static bool
find_passed(struct trail *trail, uint32_t number, char *text, struct said *said, struct variable *variable)
{
    bool known = find_argument(trail, number, text) && stand_at(trail, said);
    size_t begin = strspn(text, "&( ");
    if (known)
        *variable = find_variable(said->source, said->at, text + begin, source_token(text, begin) - begin);
    return known;
}

/* The line after a copy that is the first to use the variable which it fills. */
static bool
follow_use(struct trail trail, struct origin *origin)
{
    char text[LIFT_BYTES] = "";
    struct said said = {.text = text};
    struct variable variable;
    if (!find_passed(&trail, 0, text, &said, &variable) || variable.is_parameter)
        return false;
    const char *source = said.source->text;
    size_t last, at = find_name(&variable, said.at + strcspn(source + said.at, ";"), &last);
    name_line(said.source, at, origin->place);
    return at < variable.in.end;
}

/* Where the host fills what it copies. */
static bool
follow_copy(struct trail trail, struct origin *origin)
{
    char text[LIFT_BYTES], place[ORIGIN_PLACE_BYTES], last[ORIGIN_PLACE_BYTES] = "";
    struct said said = {.text = text};
    struct variable variable;
    size_t lines = 0;
    if (!find_passed(&trail, 1, text, &said, &variable))
        return false;
    struct setting causes[SETTINGS_AT_MOST];
    size_t settings = variable.is_parameter || is_passed(&variable) ? 0 : list_causes(&variable, said.at, causes);
    FOR_EACH(it, causes, settings) {
        name_line(said.source, it->at, place);
        if (strcmp(place, last) == 0)
            continue;
        printable_append(origin->from, sizeof(origin->from), "%s%s", lines > 0 ? ", " : "", place);
        snprintf(last, sizeof(last), "%s", place);
        if (++lines > 3 || strlen(origin->from) + 1 == sizeof(origin->from))
            return false;
    }
    snprintf(origin->name, sizeof(origin->name), "%.*s", (int)variable.length, variable.name);
    return lines > 0;
}

/* The innermost condition around a call, in its function or in those that call it, that may have another value. */
static bool
follow_decision(struct trail trail, struct origin *origin)
{
    for (; trail.frame < trail.count; ++trail.frame) {
        struct said said = {.text = NULL};
        if (!stand_at(&trail, &said) || !find_condition(said.source, said.at, (struct span){0}, NULL, &said))
            continue;
        snprintf(origin->name, sizeof(origin->name), "%.*s", (int)(said.span.end - said.span.begin),
                 said.text + said.span.begin);
        name_line(said.source, said.at, origin->place);
        add_sources(trail, &said, NULL, 0, origin);
        return true;
    }
    return false;
}

/* "cudaMemcpy", where the driver has another name for what it does, or "curandGenerateUniform", which launches a kernel
 * of the library. */
static bool
find_call(struct trail trail, struct origin *origin)
{
    static const char *const names[] = {"cudaMem", "curandGenerate"};
    struct said said = {.text = NULL};
    if (!stand_at(&trail, &said))
        return false;
    const char *text = said.source->text + said.at, *end = text + strcspn(text, ";");
    FOR_EACH(name, names, sizeof(names) / sizeof(names[0])) {
        const char *call = strstr(text, *name);
        if (call == NULL || call >= end)
            continue;
        snprintf(origin->name, sizeof(origin->name), "%.*s", (int)(source_token(call, 0)), call);
        return true;
    }
    return false;
}

/* "sum: totals.get()", what the argument is in the function that launches, and in its callers. */
static bool
find_text(struct trail trail, uint32_t number, char text[ORIGIN_FROM_BYTES])
{
    char expression[LIFT_BYTES];
    bool is_member, known = find_argument(&trail, number, expression);
    size_t length = (size_t)snprintf(text, ORIGIN_FROM_BYTES, "%s", known ? expression : "");
    for (struct said said = {.text = expression}; known && stand_at(&trail, &said);) {
        struct span name = bare_name(expression, (struct span){0, strlen(expression)}, &is_member);
        known = name.end > name.begin && !is_member && ++trail.frame < trail.count &&
                find_variable(said.source, said.at, expression + name.begin, name.end - name.begin).is_parameter &&
                lift_up(trail.sources, trail.list, trail.frame, expression);
        if (known)
            snprintf(text + length, ORIGIN_FROM_BYTES - length, ": %.40s", lift_bare(expression));
    }
    return length > 0;
}

bool
origin_find(const char *frames, uint32_t number, struct origin *origin)
{
    struct call_frames call;
    bool found = false;
    *origin = (struct origin){.name = ""};
    if (read_frames(frames, &call)) {
        struct sites *sites = sites_open(&call.log);
        struct sources sources = {.count = 0};
        struct trail trail = {.sources = &sources};
        trail.list = sites_frames(sites, 0, &trail.count);
        found = number == ORIGIN_OF_COPY       ? follow_copy(trail, origin)
                : number == ORIGIN_OF_USE      ? follow_use(trail, origin)
                : number == ORIGIN_OF_DECISION ? follow_decision(trail, origin)
                : number == ORIGIN_OF_CALL     ? find_call(trail, origin)
                : number >= ORIGIN_OF_TEXT     ? find_text(trail, number - ORIGIN_OF_TEXT, origin->from)
                                               : follow(trail, number, origin);
        sources_close(&sources);
        sites_close(sites);
    }
    free(call.copy);
    if (origin->from[0] != '\0' && number < ORIGIN_OF_TEXT)
        printable_append(origin->from, sizeof(origin->from), ",");
    return found;
}

const char *
place_name_argument(const char *frames, uint32_t number, bool is_member, char text[PLACE_ARGUMENT_BYTES])
{
    struct origin said;
    bool is_short = origin_find(frames, ORIGIN_OF_TEXT + number, &said) &&
                    strlen(said.from) + strlen("a number in argument 4294967295 (``)") < PLACE_ARGUMENT_BYTES;
    snprintf(text, PLACE_ARGUMENT_BYTES, is_short ? "%sargument %u (`%s`)" : "%sargument %u",
             is_member ? "a number in " : "", number + 1, said.from);
    return text;
}
