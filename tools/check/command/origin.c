/*
 * origin.c - where in the source a call stands, what it gets as an argument, and which line has made that: see
 * origin.h. By the source's tokens: what cannot be followed has no origin.
 */
#include "tools/check/command/origin.h"

#include "base/printable.h"
#include "softgpu/text/walk.h"
#include "tools/check/command/settings.h"

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

/* ---- names ---- */

/* "train.cu:12" of token `at`, into text[]. */
static void
name_line(const struct source *source, uint32_t at, char text[ORIGIN_PLACE_BYTES])
{
    const char *slash = strrchr(source->path, '/');
    snprintf(text, ORIGIN_PLACE_BYTES, "%.100s:%u", slash != NULL ? slash + 1 : source->path,
             source->code.tokens[at].line);
}

/* An expression without what converts it: "inv" of "&inv", "(float)inv", "static_cast<float>(inv)". */
static struct token_range
without_cast(const struct code *code, struct token_range range)
{
    const uint32_t first = range.first;
    if (range.end <= first)
        return range;
    if (token_is(code, first, "&"))
        return (struct token_range){first + 1, range.end};
    const uint32_t behind = token_next(code, first);
    if (token_is(code, first, "(") && behind > first + 1 && behind < range.end)
        return (struct token_range){behind, range.end};
    if (!token_is(code, first, "static_cast") || !token_is(code, first + 1, "<"))
        return range;
    const uint32_t open = token_skip_angles(code, first + 1, range.end);
    const bool is_all = open < range.end && token_is(code, open, "(") && token_next(code, open) == range.end;
    return is_all ? (struct token_range){open + 1, range.end - 1} : range;
}

/* The name in an expression that is a variable or a member: "inv" of "this->inv", "rate" of "adam.rate". */
struct bare_name {
    const char *text; /* NULL: it is no variable */
    size_t length;
    bool is_member; /* of another object than `this` */
};

/* The name in an expression that is nothing but a variable, a member or a cast of one; .text NULL: it is more than
 * that. */
static struct bare_name
find_bare_name(const struct code *code, struct token_range range)
{
    const struct token_range plain = without_cast(code, range);
    const bool is_odd = plain.end > plain.first && (plain.end - plain.first) % 2 == 1;
    if (!is_odd)
        return (struct bare_name){.text = NULL};
    for (uint32_t i = plain.first; i < plain.end; ++i) {
        const bool is_link = token_is(code, i, ".") || token_is(code, i, "->");
        const bool fits = (i - plain.first) % 2 == 0 ? token_is_word(code, i) : is_link;
        if (!fits)
            return (struct bare_name){.text = NULL};
    }
    const struct token *name = &code->tokens[plain.end - 1];
    const bool is_of_this = token_is(code, plain.first, "this") && token_is(code, plain.first + 1, "->");
    return (struct bare_name){code->text + name->begin, name->length, plain.end > plain.first + 1 && !is_of_this};
}

/* Whether DDP_SHARD has set the variable there, or what it is a copy of. */
static bool
is_share(const struct variable *variable, const struct setting *setting)
{
    const struct code *code = &variable->source->code;
    if (setting->is_share)
        return true;
    const bool is_copy = token_is(code, variable_behind_parts(code, setting->token + 1), "="); /* "+=" makes none */
    const struct bare_name name = find_bare_name(code, setting->value);
    if (!is_copy || name.text == NULL || name.is_member)
        return false;
    const struct variable of = variable_find(variable->source, setting->token, name.text, name.length);
    struct setting next;
    return settings_find_one(&of, setting->token, &next) && next.is_share;
}

/* ---- the frames of a call ---- */

/* At one of them. */
struct trail {
    struct sources *sources;
    const struct site_place *list;
    uint32_t count, frame;
};

/* The statement of a frame; NULL: not known. */
static const struct source_node *
statement_of(const struct trail *trail, uint32_t frame)
{
    const struct site_place *at = &trail->list[frame];
    const struct source *source = sources_open(trail->sources, at->file);
    return source != NULL ? source_statement(source, at->line, at->column) : NULL;
}

/* The place of the frame's statement, for names in an expression; its tokens stay. False: not known. */
static bool
stand_at(const struct trail *trail, struct expression *expression)
{
    const struct source_node *node = statement_of(trail, trail->frame);
    if (node == NULL)
        return false;
    expression->source = node->source;
    expression->token = node->tokens.first;
    return true;
}

/* Reads a text as an expression at the frame's statement; code_free(text_code) releases it. False: not known. */
static bool
read_expression(const struct trail *trail, const char *text, struct code *text_code, struct expression *expression)
{
    if (!stand_at(trail, expression) || !code_read(text, strlen(text), text_code))
        return false;
    expression->code = text_code;
    expression->tokens = (struct token_range){0, text_code->count};
    return true;
}

/* Whether more than one statement ends with a call in a line: it is not known which one is meant. */
static bool
has_several_calls(const struct source *source, int line)
{
    const struct code *code = &source->code;
    uint32_t calls = 0;
    uint32_t i = code_token_at(code, source_place(source, line, 1));
    for (; i < code->count && code->tokens[i].line <= (uint32_t)line; ++i)
        calls += token_is(code, i, ")") && token_is(code, i + 1, ";");
    return calls > 1;
}

/* The argument, as the innermost frame of the program's that has it says; the trail stands there. False: none does. */
static bool
find_argument(struct trail *trail, uint32_t number, char said[LIFT_BYTES])
{
    for (uint32_t i = 0; i < trail->count && i < 2; ++i) { /* the kernel's own line may be one */
        const struct source_node *node = statement_of(trail, i);
        bool is_choice = false;
        trail->frame = i;
        if (node == NULL || has_several_calls(node->source, trail->list[i].line))
            continue;
        if (lift_argument(node, number, said, &is_choice) && !is_choice)
            return true;
    }
    return false;
}

/* What an expression is in the next frame outwards; the trail stands there. False: not known. */
static bool
go_up(struct trail *trail, char expression[LIFT_BYTES])
{
    return ++trail->frame < trail->count && lift_up(trail->sources, trail->list, trail->frame, expression);
}

/* ---- what a number is computed from ---- */

static void add_sources(struct trail trail, const struct expression *expression, const struct variable *but, int depth,
                        struct origin *origin);

/* Of a parameter: what the caller passes. */
static void
add_passed(struct trail trail, const struct variable *parameter, int depth, struct origin *origin)
{
    char text[LIFT_BYTES], place[ORIGIN_PLACE_BYTES];
    struct code code;
    struct expression passed;
    snprintf(text, sizeof(text), "%.*s", (int)parameter->length, parameter->name);
    if (!go_up(&trail, text) || !read_expression(&trail, text, &code, &passed))
        return;
    name_line(passed.source, passed.token, place);
    printable_append(origin->from, ORIGIN_FROM_BYTES, ", passed as `%.60s` (%s)", text, place);
    add_sources(trail, &passed, NULL, depth + 1, origin);
    code_free(&code);
}

/* Of a variable: the line that sets it. */
static void
add_set(struct trail trail, const struct variable *variable, uint32_t use, int depth, struct origin *origin)
{
    char place[ORIGIN_PLACE_BYTES];
    struct setting setting;
    if (!settings_find_one(variable, use, &setting))
        return;
    origin->is_share = is_share(variable, &setting);
    if (origin->is_share)
        return;
    name_line(variable->source, setting.token, place);
    printable_append(origin->from, ORIGIN_FROM_BYTES, " (%s)", place);
    const struct expression value = {&variable->source->code, setting.value, variable->source, setting.token};
    if (value.tokens.end > value.tokens.first)
        add_sources(trail, &value, variable, depth + 1, origin);
}

/* Appends ", computed from `seen` (train.cu:12)", and ", which is computed from ..." for `seen`. */
static void
add_sources(struct trail trail, const struct expression *expression, const struct variable *but, int depth,
            struct origin *origin)
{
    enum { DEEPEST = 3, NEEDED_BYTES = 200, NAME_BYTES = 60 };
    struct variable only;
    const size_t count = expression_variables(expression, but, &only);
    if (count != 1 || depth == DEEPEST || strlen(origin->from) > ORIGIN_FROM_BYTES - NEEDED_BYTES)
        return;
    const char *join = depth == 0 ? ", computed from" : ", which is computed from";
    const int length = (int)(only.length < NAME_BYTES ? only.length : NAME_BYTES);
    printable_append(origin->from, ORIGIN_FROM_BYTES, "%s `%.*s`", join, length, only.name);
    if (only.is_parameter)
        add_passed(trail, &only, depth, origin);
    else
        add_set(trail, &only, expression->token, depth, origin);
}

/* "rate", or "options.rate" of a member that is set with its object. */
static void
name_setting(const struct variable *variable, const struct setting *setting, const struct bare_name *name,
             const char *said, char text[ORIGIN_NAME_BYTES])
{
    const struct code *code = &variable->source->code;
    const uint32_t end = variable_behind_parts(code, setting->token + 1);
    const uint32_t begin = code->tokens[setting->token].begin;
    if (token_is(code, setting->token + 1, "."))
        snprintf(text, ORIGIN_NAME_BYTES, "%.*s", (int)(token_end(code, end - 1) - begin), code->text + begin);
    else if (name->is_member)
        snprintf(text, ORIGIN_NAME_BYTES, "%s", said);
    else
        snprintf(text, ORIGIN_NAME_BYTES, "%.*s", (int)variable->length, variable->name);
}

/* How it goes on after an expression that an argument is in one frame. */
enum next_step { STEP_FAILS, STEP_FOUND, STEP_UP };

/* What follows from an expression of the source: found, with *origin filled; a parameter of its function, whose callers
 * are to be read (STEP_UP); or nothing. */
static enum next_step
follow_expression(const struct trail *trail, const struct expression *expression, struct origin *origin)
{
    const struct bare_name name = find_bare_name(expression->code, expression->tokens);
    if (name.text == NULL) {
        add_sources(*trail, expression, NULL, 0, origin);
        return origin->from[0] != '\0' ? STEP_FOUND : STEP_FAILS;
    }
    const struct source *source = expression->source;
    struct variable variable = variable_find(source, expression->token, name.text, name.length);
    if (name.is_member) {
        variable.in = (struct token_range){0, source->code.count};
        variable.is_of_file = true;
    } else if (variable.is_parameter) {
        return STEP_UP;
    }
    struct setting setting;
    if (!settings_find_one(&variable, expression->token, &setting) || is_share(&variable, &setting))
        return STEP_FAILS;
    name_setting(&variable, &setting, &name, expression->code->text, origin->name);
    name_line(source, setting.token, origin->place);
    const struct expression value = {&source->code, setting.value, source, setting.token};
    if (value.tokens.end > value.tokens.first)
        add_sources(*trail, &value, &variable, 0, origin);
    return STEP_FOUND;
}

/* Where argument `number` of the call comes from, following parameters from caller to caller along the call's frames.
 * False: the source does not tell. */
static bool
follow(struct trail trail, uint32_t number, struct origin *origin)
{
    char text[LIFT_BYTES];
    enum next_step step = find_argument(&trail, number, text) ? STEP_UP : STEP_FAILS;
    while (step == STEP_UP) {
        struct code code;
        struct expression expression;
        if (!read_expression(&trail, lift_bare(text), &code, &expression))
            return false;
        step = follow_expression(&trail, &expression, origin);
        code_free(&code);
        if (step == STEP_UP && !go_up(&trail, text))
            return false;
    }
    return step == STEP_FOUND;
}

/* ---- what a copy brings ---- */

/* Whether the variable is passed to a function that is not CUDA's and may change what it holds. */
static bool
is_passed(const struct variable *variable)
{
    const struct code *code = &variable->source->code;
    for (uint32_t at = variable_next(variable, variable->in.first); at < variable->in.end;
         at = variable_next(variable, at + 1)) {
        const bool is_argument = at > 0 && (token_is(code, at - 1, "(") || token_is(code, at - 1, ",")) &&
                                 (token_is(code, at + 1, ",") || token_is(code, at + 1, ")"));
        const struct source_node *node = is_argument ? source_statement_of(variable->source, at) : NULL;
        if (node != NULL && !tokens_mention(code, node->tokens.first, at, "cuda"))
            return true;
    }
    return false;
}

/* The variable that a copy's argument begins with: "&batch", "x.data() + first"; text[LIFT_BYTES] has its name. *use_p:
 * the statement. False: not known. */
static bool
find_passed(struct trail *trail, uint32_t number, char *text, struct variable *variable, uint32_t *use_p)
{
    struct code code;
    struct expression expression;
    if (!find_argument(trail, number, text) || !read_expression(trail, text, &code, &expression))
        return false;
    uint32_t i = 0;
    while (token_is(&code, i, "&") || token_is(&code, i, "("))
        ++i;
    *variable = variable_find(expression.source, expression.token, text + code.tokens[i].begin, code.tokens[i].length);
    *use_p = expression.token;
    code_free(&code);
    return true;
}

/* Finds, in *origin, the first line after a copy that uses the variable which the copy fills. False: there is none. */
static bool
follow_use(struct trail trail, struct origin *origin)
{
    char text[LIFT_BYTES];
    struct variable variable;
    uint32_t at;
    if (!find_passed(&trail, 0, text, &variable, &at) || variable.is_parameter)
        return false;
    while (at < variable.in.end && !token_is(&variable.source->code, at, ";"))
        ++at;
    at = variable_next(&variable, at);
    if (at >= variable.in.end)
        return false;
    name_line(variable.source, at, origin->place);
    return true;
}

/* Finds, in *origin, where the host fills what it copies. False: the source does not tell. */
static bool
follow_copy(struct trail trail, struct origin *origin)
{
    enum { LINES_AT_MOST = 3 };
    char text[LIFT_BYTES], place[ORIGIN_PLACE_BYTES], last[ORIGIN_PLACE_BYTES] = "";
    struct variable variable;
    struct setting list[SETTINGS_AT_MOST];
    uint32_t use, lines = 0;
    if (!find_passed(&trail, 1, text, &variable, &use) || variable.is_parameter || is_passed(&variable))
        return false;
    const size_t count = settings_that_differ(&variable, use, list);
    FOR_EACH(it, list, count) {
        name_line(variable.source, it->token, place);
        if (strcmp(place, last) == 0)
            continue;
        printable_append(origin->from, sizeof(origin->from), "%s%s", lines > 0 ? ", " : "", place);
        snprintf(last, sizeof(last), "%s", place);
        if (++lines > LINES_AT_MOST || strlen(origin->from) + 1 == sizeof(origin->from))
            return false;
    }
    snprintf(origin->name, sizeof(origin->name), "%.*s", (int)variable.length, variable.name);
    return lines > 0;
}

/* ---- what a call is, and whether it is made ---- */

/* Finds, in *origin, the innermost condition around a call, in its function or in those that call it, that may have
 * another value on another rank. False: there is none. */
static bool
follow_decision(struct trail trail, struct origin *origin)
{
    for (; trail.frame < trail.count; ++trail.frame) {
        struct expression at, condition;
        if (!stand_at(&trail, &at) ||
            !settings_find_condition(at.source, at.token, (struct token_range){0, 0}, NULL, &condition))
            continue;
        const struct code *code = condition.code;
        const uint32_t begin = code->tokens[condition.tokens.first].begin;
        snprintf(origin->name, sizeof(origin->name), "%.*s", (int)(token_end(code, condition.tokens.end - 1) - begin),
                 code->text + begin);
        name_line(condition.source, condition.token, origin->place);
        add_sources(trail, &condition, NULL, 0, origin);
        return true;
    }
    return false;
}

/* Finds the name of the program's call: "cudaMemcpy", where the driver has another name for what it does, or
 * "curandGenerateUniform", which launches a kernel of the library. False: it is not known. */
static bool
find_call(struct trail trail, struct origin *origin)
{
    static const char *const names[] = {"cudaMem", "curandGenerate"};
    struct expression at;
    if (!stand_at(&trail, &at))
        return false;
    const struct code *code = &at.source->code;
    FOR_EACH(name, names, sizeof(names) / sizeof(names[0])) {
        for (uint32_t i = at.token; i < code->count && !token_is(code, i, ";"); ++i) {
            if (!token_begins(code, i, *name))
                continue;
            snprintf(origin->name, sizeof(origin->name), "%.*s", (int)code->tokens[i].length,
                     code->text + code->tokens[i].begin);
            return true;
        }
    }
    return false;
}

/* Whether a text is a parameter of the frame's function. */
static bool
is_parameter(const struct trail *trail, const char *text)
{
    struct code code;
    struct expression expression;
    if (!read_expression(trail, text, &code, &expression))
        return false;
    const struct bare_name name = find_bare_name(&code, expression.tokens);
    const bool is_variable = name.text != NULL && !name.is_member;
    const bool found =
        is_variable && variable_find(expression.source, expression.token, name.text, name.length).is_parameter;
    code_free(&code);
    return found;
}

/* Finds what the argument is in the function that launches, and in its callers: "sum: totals.get()". False: it is
 * not known. */
static bool
find_text(struct trail trail, uint32_t number, char text[ORIGIN_FROM_BYTES])
{
    char expression[LIFT_BYTES];
    if (!find_argument(&trail, number, expression))
        return false;
    size_t length = (size_t)snprintf(text, ORIGIN_FROM_BYTES, "%s", expression);
    while (is_parameter(&trail, expression) && go_up(&trail, expression))
        snprintf(text + length, ORIGIN_FROM_BYTES - length, ": %.40s", lift_bare(expression));
    return length > 0;
}

/* ---- the door ---- */

/* Answers origin_find() for one call: `number` is the argument, or an ORIGIN_OF_... question. */
static bool
find_in(struct trail trail, uint32_t number, struct origin *origin)
{
    switch (number) {
    case ORIGIN_OF_COPY:
        return follow_copy(trail, origin);
    case ORIGIN_OF_USE:
        return follow_use(trail, origin);
    case ORIGIN_OF_DECISION:
        return follow_decision(trail, origin);
    case ORIGIN_OF_CALL:
        return find_call(trail, origin);
    default:
        break;
    }
    if (number >= ORIGIN_OF_TEXT)
        return find_text(trail, number - ORIGIN_OF_TEXT, origin->from);
    return follow(trail, number, origin);
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
        found = find_in(trail, number, origin);
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
