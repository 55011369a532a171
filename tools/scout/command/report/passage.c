/* passage.c - see passage.h. */
#include "tools/scout/command/report/passage.h"

#include "softgpu/text/declarations.h"
#include "softgpu/text/walk.h"
#include "tools/scout/command/report/expression.h"
#include "tools/scout/command/report/owners.h"

/* ---- who declares a name ---- */

bool
passage_is_declared(const struct source *source, struct token_range in, const char *name, size_t length)
{
    FOR_EACH_NODE(node, source->first) {
        const bool is_inside = node->tokens.first >= in.first && node->tokens.first < in.end;
        if (is_inside && !node->is_block && source_declares(node, name, length))
            return true;
    }
    return false;
}

/* The name of a parameter: "count" of "size_t count = 1", "float *w[]". False: it has none. */
static bool
find_parameter(const struct code *code, struct token_range parameter, uint32_t *name_p)
{
    bool has_name = false;
    for (uint32_t i = parameter.first; i < parameter.end && !token_is(code, i, "="); ++i) {
        if (!token_is_word(code, i))
            continue;
        *name_p = i;
        has_name = true;
    }
    return has_name;
}

/* Whether a variable of the file has the name. */
static bool
is_of_file(const struct source *source, const char *name, size_t length)
{
    FOR_EACH_NODE(node, source->first)
        if (node->parent == NULL && token_declares(&source->code, source_own(node), name, length))
            return true;
    return false;
}

/* Whether a file defines a macro of this name, or one that begins so. */
static bool
defines(const struct code *code, const char *name, size_t length)
{
    static const char define[] = "#define ";
    return ANY(it, code->directives, code->directive_count,
               strncmp(code->text + it->begin, define, strlen(define)) == 0 &&
                   strncmp(code->text + it->begin + strlen(define), name, length) == 0);
}

/* Whether a file says the name anywhere. */
static bool
mentions(const struct code *code, const char *name, size_t length)
{
    return ANY_NUMBER(i, 0, code->count, token_is_text(code, i, name, length)) || defines(code, name, length);
}

/* Whether the function is a method whose class is declared elsewhere: "float Layer::forward()". */
static bool
is_method_of_other_file(const struct passage *passage)
{
    const uint32_t name = passage->parameters.name;
    return name > 0 && token_is(&passage->inner->code, name - 1, "::");
}

/* Whether a method, whose class is declared elsewhere, has the name from there, as a constant of the class, so that
 * callers in other files do not know it: neither file has it. */
static bool
is_constant(const struct passage *passage, const char *name, size_t length)
{
    if (!isupper((unsigned char)name[0]) || !is_method_of_other_file(passage))
        return false;
    return !defines(&passage->inner->code, name, length) && !mentions(&passage->outer->code, name, length) &&
           !is_of_file(passage->inner, name, length);
}

/* What a class says of a name. */
enum member { MEMBER_NONE, MEMBER_OPEN, MEMBER_HIDDEN };

/* Whether the class around a function, in this file, declares the name, and whether others may use it. */
static enum member
find_in_class(const struct source_node *function, const char *name, size_t length)
{
    static const char *const closes[] = {"private", "protected", NULL};
    const struct code *code = &function->source->code;
    const struct source_node *block = function->parent;
    if (block == NULL)
        return MEMBER_NONE;
    uint32_t word = 0;
    if (block->parent != NULL)
        word = token_skip_template(code, block->parent->tokens.first, block->tokens.first);
    bool is_hidden = token_is(code, word, "class");
    FOR_EACH_INSIDE(node, block) {
        if (node->parent != block)
            continue;
        if (token_declares(code, source_own(node), name, length))
            return is_hidden ? MEMBER_HIDDEN : MEMBER_OPEN;
        if (token_is(code, node->tokens.first, "public"))
            is_hidden = false;
        if (token_is_one_of(code, node->tokens.first, closes))
            is_hidden = true;
    }
    return MEMBER_NONE;
}

/* Whether a name is a member of the function's class. */
static enum member
find_member(const struct passage *passage, const char *name, size_t length)
{
    if (!is_method_of_other_file(passage))
        return find_in_class(passage->function, name, length);
    const bool is_sizeof = length == strlen("sizeof") && strncmp(name, "sizeof", length) == 0;
    if (isupper((unsigned char)name[0]) || is_sizeof || is_of_file(passage->inner, name, length))
        return MEMBER_NONE;
    return name[length - 1] == '_' ? MEMBER_HIDDEN : MEMBER_OPEN; /* as private members are often called */
}

/* ---- templates ---- */

/* The number of a parameter in the template at a token, from 0. False: it has none of this name. */
static bool
find_in_template(const struct code *code, struct token_range tokens, const char *name, size_t length,
                 uint32_t *number_p)
{
    if (!token_is(code, tokens.first, "template"))
        return false;
    const uint32_t end = token_skip_template(code, tokens.first, tokens.end);
    uint32_t number = 0;
    for (uint32_t i = tokens.first + 1; i < end; ++i) {
        number += token_is(code, i, ",");
        if (!token_is_text(code, i, name, length))
            continue;
        *number_p = number;
        return true;
    }
    return false;
}

/* Whether a name is a parameter of a template around the function. *number_p: which, of the function's own one; else
 * SCOUT_NONE. */
static bool
is_of_template(const struct source_node *function, const char *name, size_t length, uint32_t *number_p)
{
    for (const struct source_node *node = function; node != NULL; node = node->parent) {
        uint32_t number;
        if (!find_in_template(&function->source->code, node->tokens, name, length, &number))
            continue;
        *number_p = node == function ? number : SCOUT_NONE;
        return true;
    }
    return false;
}

/* Behind the argument of a template that begins at a token. */
static uint32_t
argument_end(const struct code *code, uint32_t i)
{
    while (i < code->count && !token_is(code, i, ",") && !token_is(code, i, ">"))
        i = token_is(code, i, "<") ? token_skip_angles(code, i, code->count) : token_next(code, i);
    return i;
}

/* The argument of a template: "float" of "make<int, float>", number 1. False: there is none. */
static bool
find_template_argument(const struct code *code, uint32_t number, struct token_range *argument)
{
    uint32_t first = 0;
    while (first < code->count && !token_is(code, first, "<"))
        ++first;
    while (first < code->count) {
        const uint32_t end = argument_end(code, first + 1);
        *argument = (struct token_range){first + 1, end};
        if (number == 0)
            return end < code->count && end > first + 1;
        --number;
        first = token_is(code, end, ",") ? end : code->count;
    }
    return false;
}

/* False: there is no such argument, or it has arguments of its own. */
static bool
template_argument(const char *function, uint32_t number, char to[LIFT_BYTES])
{
    struct code code = expression_read(function);
    struct token_range argument;
    const bool is_plain = find_template_argument(&code, number, &argument) && !expression_has(&code, argument, "<");
    const bool is_copied = is_plain && expression_copy(&code, argument, to);
    code_free(&code);
    return is_copied;
}

bool
passage_is_fixed(const struct passage *passage, const char *expression)
{
    struct code code = expression_read(expression);
    uint32_t count = 0;
    bool is_fixed = true;
    for (uint32_t i = 0; is_fixed && expression_next_name(&code, &i); ++i, ++count) {
        const char *name = code.text + code.tokens[i].begin;
        uint32_t unused;
        is_fixed = is_of_template(passage->function, name, code.tokens[i].length, &unused) ||
                   is_constant(passage, name, code.tokens[i].length);
    }
    code_free(&code);
    return is_fixed && count > 0;
}

/* ---- values ---- */

/* Puts an expression where a name was. */
static bool
put_for_name(const char *value, char to[LIFT_BYTES])
{
    return snprintf(to, LIFT_BYTES, expression_is_primary(value) ? "%s" : "(%s)", value) < LIFT_BYTES;
}

/* "n * 4" of "const size_t bytes = n * 4;", at the call; in front of it, of what is no constant, too. False: the
 * function declares no such value. */
static bool
pass_value(const struct passage *passage, const char *name, size_t length, char to[LIFT_BYTES])
{
    const struct code *code = &passage->inner->code;
    char value[LIFT_BYTES];
    FOR_EACH_INSIDE(node, passage->function) {
        const struct token_range own = source_own(node);
        const bool may = passage->is_front || token_is(code, own.first, "const");
        struct token_range assigned;
        if (node->is_block || !may || own.first >= passage->said || expression_has(code, own, ","))
            continue;
        if (!expression_assigned(code, own, &assigned) || !token_declares(code, own, name, length))
            continue;
        const struct token_range after = {own.end, passage->said};
        if (expression_sets(code, after, name, length) || !expression_copy(code, assigned, value))
            return false;
        passage_lift(passage, value);
        return value[0] != '\0' && put_for_name(value, to);
    }
    return false;
}

void
passage_follow_value(const struct passage *passage, char expression[LIFT_BYTES])
{
    const struct code *code = &passage->inner->code;
    const struct source_node *body = source_block(passage->function);
    char left[LIFT_BYTES], right[LIFT_BYTES], value[LIFT_BYTES] = "";
    bool is_one = true;
    FOR_EACH_INSIDE(node, passage->function) {
        const struct token_range own = source_own(node);
        struct token_range assigned;
        if (own.first >= passage->said || !expression_assigned(code, own, &assigned))
            continue;
        const struct token_range before = {own.first, assigned.first - 1};
        if (!expression_copy(code, before, left) || strcmp(left, expression) != 0)
            continue;
        if (!expression_copy(code, assigned, right))
            continue;
        is_one = value[0] == '\0' && node->parent == body;
        snprintf(value, sizeof(value), "%s", right);
    }
    if (value[0] != '\0')
        snprintf(expression, LIFT_BYTES, "%s", is_one ? value : "");
}

/* What the call's result is assigned to, and whether it is an owner of its class, not a pointer. */
struct assigned {
    struct token_range left; /* empty: to nothing, or not as it is */
    bool is_class;           /* it is declared as no pointer */
};

/* The '=' of the statement before the call; the statement's first token: there is none, or the result is an argument of
 * another call. */
static uint32_t
find_assignment(const struct code *code, uint32_t first, uint32_t name)
{
    static const char cast[] = "_cast";
    uint32_t equal = first; /* no assignment begins with its '=' */
    bool is_cast = false;
    for (uint32_t i = first, next; i < name; i = next) {
        const struct token *token = &code->tokens[i];
        const bool opens = token->match > i, is_around = opens && token->match > name, was_cast = is_cast;
        const bool says_cast = token_is_word(code, i) && token->length > strlen(cast) &&
                               strncmp(code->text + token_end(code, i) - strlen(cast), cast, strlen(cast)) == 0;
        is_cast = says_cast || (is_cast && !is_around);
        next = opens && !is_around ? token->match + 1 : i + 1;
        const bool is_called = i > 0 && (token_is_word(code, i - 1) || token_is(code, i - 1, ">"));
        if (token_is(code, i, "="))
            equal = i;
        else if (is_around && !was_cast && is_called)
            equal = first;
    }
    return equal;
}

/* The left side of the assignment whose right side is the passage's call alone; .left empty: there is none. `is_class`:
 * it is declared there, and is no pointer. */
static struct assigned
find_assigned(const struct passage *passage)
{
    static const char *const ends[] = {";", ")", ",", NULL};
    const struct code *code = &passage->outer->code;
    const uint32_t first = passage->caller->tokens.first;
    const uint32_t equal = find_assignment(code, first, passage->call.name);
    if (equal == first || !token_is_one_of(code, passage->call.close + 1, ends))
        return (struct assigned){.is_class = false};

    struct token_range left = {token_postfix_begin(code, equal), equal};
    if (left.first < first)
        left.first = first;
    const bool has_before = left.first > first;
    const bool is_declared = has_before && (token_is_word(code, left.first - 1) || token_is(code, left.first - 1, ">"));
    if (has_before && left.first - 1 == first && token_is(code, first, "*"))
        left.first = first; /* no declaration */
    const struct token_range type = {first, left.first};
    const bool is_pointer = expression_has(code, type, "auto") || expression_has(code, type, "*");
    return (struct assigned){.left = left, .is_class = is_declared && !is_pointer};
}

void
passage_assigned_to(const struct passage *passage, char to[LIFT_BYTES])
{
    const struct assigned assigned = find_assigned(passage);
    const bool is_pointer = assigned.left.end > assigned.left.first && !assigned.is_class;
    if (!is_pointer || !expression_copy(&passage->outer->code, assigned.left, to)) /* else a class made of the memory */
        to[0] = '\0';
}

void
passage_owned(const struct passage *passage, char to[LIFT_BYTES])
{
    char owner[LIFT_BYTES];
    const struct code *code = &passage->outer->code;
    const struct token_range left = find_assigned(passage).left;
    const bool is_alone = call_name_begin(code, &passage->call) == left.end + 1; /* behind the '=' */
    bool is_named = false;
    if (left.end == left.first)
        is_named = owners_find_receiver(passage->caller, &passage->call, owner);
    else
        is_named = is_alone && expression_copy(code, left, owner);
    if (!is_named || snprintf(to, LIFT_BYTES, "%s.get()", owner) >= LIFT_BYTES)
        to[0] = '\0';
}

bool
passage_returns_call(const struct passage *passage)
{
    const struct code *code = &passage->inner->code;
    uint32_t i = passage->said;
    struct call call;
    if (!token_is(code, i, "return"))
        return false;
    ++i;
    while (token_is_word(code, i) && token_is(code, i + 1, "::"))
        i += 2;
    const bool is_callee = token_is_text(code, i, passage->callee, strcspn(passage->callee, "<"));
    return is_callee && call_read(code, i, passage->said, &call) && token_is(code, call.close + 1, ";");
}

bool
passage_returns_owner(const struct passage *passage, const char *expression)
{
    FOR_EACH_INSIDE(node, passage->function) {
        const struct token_range own = source_own(node);
        if (!token_is(&passage->inner->code, own.first, "return"))
            continue;
        if (owners_take(passage->inner, (struct token_range){own.first + 1, own.end - 1}, expression))
            return true;
    }
    return false;
}

bool
passage_returns(const struct passage *passage, const char *expression)
{
    const struct code *code = &passage->inner->code;
    char text[LIFT_BYTES];
    FOR_EACH_INSIDE(node, passage->function) {
        const struct token_range own = source_own(node);
        if (!token_is(code, own.first, "return"))
            continue;
        if (expression[0] == '\0') {
            if (own.first == passage->said)
                return true;
            continue;
        }
        struct token_range value = {own.first + 1, own.end - 1};
        if (token_is(code, value.first, "(") && token_next(code, value.first) < value.end)
            value.first = token_next(code, value.first); /* a cast */
        if (expression_copy(code, value, text) && strcmp(text, expression) == 0)
            return true;
    }
    return false;
}

/* ---- names ---- */

/* Finds the caller's expression of a parameter: the argument. False: the name is no parameter. */
static bool
pass_argument(const struct passage *passage, uint32_t number, char to[LIFT_BYTES])
{
    char text[LIFT_BYTES];
    if (number >= passage->call.count ||
        !expression_copy(&passage->outer->code, passage->call.arguments[number], text) || text[0] == '{')
        return false;
    return put_for_name(text, to);
}

/* Finds the caller's expression of a name that the function declares: that of the value that it has, or of what its
 * result is assigned to. False: there is none. */
static bool
pass_declared(const struct passage *passage, const char *name, size_t length, char to[LIFT_BYTES])
{
    char text[LIFT_BYTES];
    if (pass_value(passage, name, length, to))
        return true;
    snprintf(text, sizeof(text), "%.*s", (int)length, name);
    if (!passage_returns(passage, text))
        return false;
    passage_assigned_to(passage, to);
    return to[0] != '\0' && expression_is_primary(to);
}

/* What a call's members belong to: "net->", or "" where it is the caller's own object, too. False: it has no name. */
static bool
name_object(const struct passage *passage, char to[LIFT_BYTES])
{
    const struct code *code = &passage->outer->code;
    const struct call *call = &passage->call;
    to[0] = '\0';
    if (passage->makes)
        return snprintf(to, LIFT_BYTES, "%.*s.", (int)code->tokens[call->name].length,
                        code->text + code->tokens[call->name].begin) < LIFT_BYTES;
    if (call->object.end > call->object.first)
        return expression_copy(code, call->object, to);
    if (call->name == 0 || !token_is(code, call->name - 1, "new"))
        return true;
    char pointer[LIFT_BYTES];
    passage_assigned_to(passage, pointer);
    return pointer[0] != '\0' && expression_is_primary(pointer) &&
           snprintf(to, LIFT_BYTES, "%s->", pointer) < LIFT_BYTES;
}

/* Finds the caller's expression of a member: one of the call's object. False: the name is no member. */
static bool
pass_member(const struct passage *passage, enum member member, const char *name, size_t length, char to[LIFT_BYTES])
{
    char object[LIFT_BYTES];
    if (!name_object(passage, object) || (object[0] != '\0' && member == MEMBER_HIDDEN))
        return false;
    return snprintf(to, LIFT_BYTES, "%s%.*s", object, (int)length, name) < LIFT_BYTES;
}

/* Whether callers in other files cannot say the name. */
static bool
is_unknown_outside(const struct passage *passage, const char *name, size_t length)
{
    const bool is_this = length == strlen("this") && memcmp(name, "this", length) == 0;
    if (is_this || is_constant(passage, name, length))
        return true;
    return passage->inner != passage->outer && is_of_file(passage->inner, name, length) &&
           !is_of_file(passage->outer, name, length);
}

/* What a name of the function is at the call. False: not to be said there. */
static bool
pass_name(const struct passage *passage, const char *name, size_t length, char to[LIFT_BYTES])
{
    const struct code *code = &passage->inner->code;
    const struct token_range before = {source_block(passage->function)->tokens.first, passage->said};
    if (passage->is_front && expression_sets(code, before, name, length))
        return pass_value(passage, name, length, to);
    for (uint32_t i = 0; i < passage->parameters.count; ++i) {
        uint32_t parameter;
        if (find_parameter(code, passage->parameters.arguments[i], &parameter) &&
            token_is_text(code, parameter, name, length))
            return pass_argument(passage, i, to);
    }
    const struct token_range here = {passage->function->tokens.first + 1, passage->said + 1};
    if (passage_is_declared(passage->inner, here, name, length))
        return pass_declared(passage, name, length, to);
    uint32_t number;
    if (is_of_template(passage->function, name, length, &number))
        return number != SCOUT_NONE && passage->name != NULL && template_argument(passage->name, number, to);
    if (is_unknown_outside(passage, name, length))
        return false;
    const enum member member = find_member(passage, name, length);
    if (member != MEMBER_NONE)
        return pass_member(passage, member, name, length, to);
    return snprintf(to, LIFT_BYTES, "%.*s", (int)length, name) < LIFT_BYTES;
}

/* ---- expressions ---- */

/* Without the address of a name that a star or an arrow follows: *(&w) is w, (&w)->x is w.x. False: `name` is no such
 * address of what needs no brackets. */
static bool
drop_address(char name[LIFT_BYTES])
{
    char bare[LIFT_BYTES];
    const size_t length = strlen(name);
    if (strncmp(name, "(&", 2) != 0 || length < strlen("(&)"))
        return false;
    snprintf(bare, sizeof(bare), "%.*s", (int)(length - strlen("(&)")), name + 2);
    if (!expression_is_primary(bare))
        return false;
    memcpy(name, bare, LIFT_BYTES);
    return true;
}

/* An expression as it is put together. */
struct passed {
    char text[LIFT_BYTES];
    size_t length; /* LIFT_BYTES or more: no room */
    size_t done;   /* of the expression */
};

/* Appends text to the passed expression, as far as it has room. */
static void
put(struct passed *passed, const char *text, size_t length)
{
    if (passed->length < LIFT_BYTES)
        passed->length +=
            (size_t)snprintf(passed->text + passed->length, LIFT_BYTES - passed->length, "%.*s", (int)length, text);
}

/* Puts what stands in front of the name at token i, and the name as the caller says it. False: it cannot. */
static bool
put_name(struct passed *passed, const struct passage *passage, const struct code *code, uint32_t i)
{
    const uint32_t begin = code->tokens[i].begin, end = token_end(code, i);
    const bool is_arrow = token_is(code, i + 1, "->");
    const bool is_star = i == 1 && begin == 1 && token_is(code, 0, "*") && !is_arrow;
    char name[LIFT_BYTES];
    if (!pass_name(passage, code->text + begin, end - begin, name))
        return false;
    const bool is_bare = (is_star || is_arrow) && drop_address(name);
    put(passed, code->text + passed->done, begin - passed->done - (is_bare && is_star));
    put(passed, name, strlen(name));
    if (is_bare && is_arrow)
        put(passed, ".", 1);
    passed->done = is_bare && is_arrow ? token_end(code, i + 1) : end;
    return true;
}

void
passage_lift(const struct passage *passage, char expression[LIFT_BYTES])
{
    struct code code = expression_read(expression);
    struct passed passed = {.length = 0};
    bool is_said = true;
    for (uint32_t i = 0; is_said && expression_next_name(&code, &i); ++i)
        is_said = put_name(&passed, passage, &code, i);
    if (is_said)
        put(&passed, expression + passed.done, strlen(expression + passed.done));
    code_free(&code);
    if (!is_said || passed.length >= LIFT_BYTES)
        passed.text[0] = '\0';
    memcpy(expression, passed.text, LIFT_BYTES);
}
