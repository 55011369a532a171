/* lift.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

/* ---- calls in a source's text, with their arguments and the object of a method ---- */

enum { ARGUMENTS_AT_MOST = 24 };

struct call {
    struct span name, object; /* name: up to the arguments; object: "layer->weight." of a method, "" without one */
    struct span arguments[ARGUMENTS_AT_MOST];
    uint32_t count;
};

/* The part without comments, and with one blank for each gap. False: no room. */
static bool
copy_span(const char *text, struct span span, char to[LIFT_BYTES])
{
    size_t length = 0, at = source_skip(text, span.begin), last = at;
    while (at < span.end) {
        size_t end = source_token(text, at);
        if (length + (end - at) + 2 > LIFT_BYTES)
            return false;
        if (at > last)
            to[length++] = ' ';
        memcpy(to + length, text + at, end - at);
        length += end - at;
        last = end;
        at = source_skip(text, end);
    }
    to[length] = '\0';
    return true;
}

/* Whether a part of a text is this word. */
static bool
is_word(const char *text, struct span span, const char *word, size_t length)
{
    return span.end - span.begin == length && strncmp(text + span.begin, word, length) == 0;
}

/* Whether an expression needs no brackets where it replaces a name. */
static bool
is_primary(const char *expression)
{
    size_t at = 0;
    while (expression[at] != '\0') {
        if (strchr("([", expression[at]) != NULL && at > 0)
            at = source_close(expression, at);
        else if (source_is_word(expression[at]) || strchr(".:", expression[at]) != NULL)
            ++at;
        else if (strncmp(expression + at, "->", 2) == 0)
            at += 2;
        else
            return false;
    }
    return true;
}

/* The end of what stands in front of blanks before `at`. */
static size_t
skip_back(const char *text, size_t begin, size_t at)
{
    while (at > begin && isspace((unsigned char)text[at - 1]))
        --at;
    return at;
}

/* Where the expression that ends before `end` begins: "net->w[i]" of "float *net->w[i]". */
static size_t
begin_of_postfix(const char *text, size_t begin, size_t end)
{
    while (end > begin) {
        size_t at = skip_back(text, begin, end);
        if (at > begin && strchr(")]", text[at - 1]) != NULL) {
            int depth = 0;
            do {
                --at;
                depth += strchr(")]", text[at]) != NULL;
                depth -= strchr("([", text[at]) != NULL;
            } while (at > begin && depth > 0);
            end = at;
            continue;
        }
        while (at > begin && source_is_word(text[at - 1]))
            --at;
        size_t link = skip_back(text, begin, at);
        if (link > begin + 1 && text[link - 1] == '>' && text[link - 2] == '-')
            end = link - 2;
        else if (link > begin && text[link - 1] == '.')
            end = link - 1;
        else if (link > begin + 1 && text[link - 1] == ':' && text[link - 2] == ':')
            end = link - 2;
        else
            return at;
    }
    return begin;
}

static void
split_arguments(const char *text, size_t open, struct call *call)
{
    size_t end = source_close(text, open), begin = open + 1;
    call->count = 0;
    for (size_t at = source_skip(text, begin); at < end && call->count < ARGUMENTS_AT_MOST;) {
        if (text[at] == ',' || at == end - 1) {
            if (at > source_skip(text, begin))
                call->arguments[call->count++] = (struct span){begin, at};
            begin = at + 1;
        }
        bool opens = strchr("([{", text[at]) != NULL && text[at] != '\0';
        at = source_skip(text, opens ? source_close(text, at) : source_token(text, at));
    }
}

/* In front of a name: "x." or "p->"; empty: neither. */
static struct span
object_before(const char *text, size_t begin, size_t name)
{
    size_t end = skip_back(text, begin, name);
    bool is_arrow = end > begin + 1 && text[end - 1] == '>' && text[end - 2] == '-';
    if (!is_arrow && !(end > begin && text[end - 1] == '.'))
        return (struct span){name, name};
    return (struct span){begin_of_postfix(text, begin, end - (is_arrow ? 2 : 1)), end};
}

static bool
is_behind_new(const char *text, size_t begin, size_t at)
{
    at = skip_back(text, begin, at);
    return at >= begin + 3 && strncmp(text + at - 3, "new", 3) == 0 &&
           (at == begin + 3 || !source_is_word(text[at - 4]));
}

/* A call "name(", "name<int>(" in a part of the text; of several the one around `place`. What a constructor makes is
 * not named. False: none, or which of several is not known. */
static bool
find_call(const char *text, struct span in, const char *name, size_t place, struct call *call)
{
    size_t length = strcspn(name, "<");
    unsigned found = 0;
    bool has_place = false;
    for (size_t at = source_skip(text, in.begin), end; at < in.end; at = source_skip(text, end)) {
        end = source_token(text, at);
        size_t open = source_skip_angles(text, source_skip(text, end), in.end);
        if (!is_word(text, (struct span){at, end}, name, length) || text[open] != '(')
            continue;
        bool is_here = at <= place && place < source_close(text, open); /* the innermost one counts */
        end = place == SIZE_MAX ? source_close(text, open) : end;       /* calls in its arguments are not beside it */
        if (++found > 1 && !is_here)
            continue;
        has_place = has_place || is_here;
        *call = (struct call){.name = {at, open}, .object = object_before(text, in.begin, at)};
        split_arguments(text, open, call);
    }
    return has_place || found == 1;
}

/* The part of a statement that is its own, in front of statements inside it. */
static struct span
own_part(const struct source_node *node)
{
    bool has_inside = node->next != NULL && node->next->begin < node->end;
    return (struct span){node->begin, has_inside ? node->next->begin : node->end};
}

static bool
has_word(const char *text, struct span span, const char *word)
{
    size_t length = strcspn(word, "<");
    for (size_t at = source_skip(text, span.begin), end; at < span.end && length > 0; at = source_skip(text, end)) {
        end = source_token(text, at);
        if (is_word(text, (struct span){at, end}, word, length))
            return true;
    }
    return false;
}

/* ---- names ---- */

/* Whether a statement's text declares the name: "float *name = ...", "int other, name;". */
static bool
declares(const char *text, struct span span, const char *name, size_t length)
{
    static const char *const no_types[] = {"return", "else", "delete", "new", "goto", "case", "throw"};
    size_t at = source_skip(text, span.begin), words = 0, end;
    bool is_auto = false, is_declarator = true; /* nothing but types and stars since the begin, or since a comma */
    for (; at < span.end; at = source_skip(text, end)) {
        end = source_token(text, at);
        if (strchr("({[", text[at]) != NULL) {
            end = source_close(text, at);
            for (size_t name_at = at + 1; text[at] == '[' && is_auto && is_declarator && name_at < end;) {
                size_t name_end = source_token(text, name_at = source_skip(text, name_at)); /* auto &[a, b] */
                if (is_word(text, (struct span){name_at, name_end}, name, length))
                    return true;
                name_at = name_end;
            }
            is_declarator = false;
        } else if (text[at] == '<' && words > 0 && is_declarator) {
            for (int angles = 0; end < span.end && (angles != -1);)
                angles += (text[end] == '<') - (text[end] == '>'), ++end;
        } else if (text[at] == ',') {
            is_declarator = words > 1;
        } else if (source_is_word(text[at])) {
            is_auto = is_auto || is_word(text, (struct span){at, end}, "auto", 4);
            if (ANY(word, no_types, sizeof(no_types) / sizeof(no_types[0]),
                    is_word(text, (struct span){at, end}, *word, strlen(*word))))
                return false;
            size_t next = source_skip(text, end);
            bool ends = next >= span.end || strchr("=;,[({:", text[next]) != NULL;
            if (words > 0 && is_declarator && ends) {
                if (is_word(text, (struct span){at, end}, name, length))
                    return true;
                words = 2;
            } else if (words == 0) {
                words = 1;
            }
        } else if (strchr("*&:", text[at]) == NULL) {
            is_declarator = false;
        }
    }
    return false;
}

bool
lift_declares(const struct source_node *node, const char *name, size_t length)
{
    struct span own = own_part(node);
    const char *text = node->source->text;
    const char *open = node->is_loop ? memchr(text + own.begin, '(', own.end - own.begin) : NULL;
    own.begin = open != NULL ? (size_t)(open + 1 - text) : own.begin;
    return declares(text, own, name, length);
}

/* Whether a statement that begins in a part of the text declares the name. */
static bool
is_declared(const struct source *source, const char *name, size_t length, size_t begin, size_t end)
{
    FOR_EACH_NODE(node, source->first)
        if (!node->is_block && node->begin >= begin && node->begin < end && lift_declares(node, name, length))
            return true;
    return false;
}

/* A type or a cast of the language, which is the same everywhere. */
static bool
is_type(const char *word, size_t length)
{
    char padded[LIFT_BYTES];
    snprintf(padded, sizeof(padded), " %.*s ", (int)length, word);
    return strstr(
               " float double int char short long unsigned signed bool size_t static_cast reinterpret_cast const_cast ",
               padded) != NULL;
}

/* The next name of an expression that stands for itself: no member, no type, no number, and no function but one
 * without arguments, which may be a method. False: none. */
static bool
next_name(const char *expression, size_t *at, struct span *name)
{
    for (*at = source_skip(expression, *at); expression[*at] != '\0'; *at = source_skip(expression, *at)) {
        size_t begin = *at, end = *at = source_token(expression, begin), before = begin;
        while (before > 0 && expression[before - 1] == ' ')
            --before;
        bool is_member = before > 0 && (expression[before - 1] == '.' ||
                                        (before > 1 && (strncmp(expression + before - 2, "->", 2) == 0 ||
                                                        strncmp(expression + before - 2, "::", 2) == 0)));
        size_t next = source_skip(expression, end);
        bool is_name = isalpha((unsigned char)expression[begin]) || expression[begin] == '_';
        bool is_call = expression[next] == '(' && expression[source_skip(expression, next + 1)] != ')';
        if (is_name && !is_member && !is_type(expression + begin, end - begin) && !is_call &&
            strncmp(expression + next, "::", 2) != 0) {
            *name = (struct span){begin, end};
            return true;
        }
    }
    return false;
}

/* ---- from a function to its caller ---- */

/* The function in which an expression was said, and the call of it. */
struct passage {
    const struct source *inner;
    const struct source_node *function; /* of `inner` */
    size_t said;                        /* place there */
    struct call parameters;             /* its header, read as a call */
    const struct source *outer;
    struct span statement; /* of `outer`, with the call */
    struct call call;
    const char *name; /* of the function, "make<float>" with what its template got */
    bool is_front;    /* in front of the call, before the function gives names other values */
};

/* "count" of "size_t count = 1", "float *w[]". */
static struct span
parameter_name(const char *text, struct span span)
{
    struct span name = {0};
    for (size_t at = source_skip(text, span.begin), end; at < span.end && text[at] != '=';
         at = source_skip(text, end)) {
        end = source_token(text, at);
        if (source_is_word(text[at]))
            name = (struct span){at, end};
    }
    return name;
}

/* Whether a variable of the file has the name. */
static bool
is_of_file(const struct source *source, const char *name, size_t length)
{
    FOR_EACH_NODE(node, source->first)
        if (node->parent == NULL && declares(source->text, own_part(node), name, length))
            return true;
    return false;
}

/* Whether a method, whose class is declared elsewhere, has the name from there, as a constant of the class, so that
 * callers in other files do not know it: neither file has it. */
static bool
is_constant(const struct passage *passage, const char *name, size_t length)
{
    char text[LIFT_BYTES];
    const char *inner = passage->inner->text;
    size_t before = passage->parameters.name.begin;
    snprintf(text, sizeof(text), "#define %.*s", (int)length, name);
    return isupper((unsigned char)name[0]) && before > 1 && strncmp(inner + before - 2, "::", 2) == 0 &&
           strstr(inner, text) == NULL && strstr(passage->outer->text, text + strlen("#define ")) == NULL &&
           !is_of_file(passage->inner, name, length);
}

/* Whether the function is a method whose class, if it is in this file, declares the name. *hidden_p: not for others. */
static bool
is_member(const struct passage *passage, const char *name, size_t length, bool *hidden_p)
{
    const struct source *source = passage->inner;
    const struct source_node *parent = passage->function->parent;
    size_t before = passage->parameters.name.begin;
    if (before > 1 && strncmp(source->text + before - 2, "::", 2) == 0) { /* its class is declared elsewhere */
        *hidden_p = length > 0 && name[length - 1] == '_';                /* as private members are often called */
        return !isupper((unsigned char)name[0]) && !is_word(name, (struct span){0, length}, "sizeof", 6) &&
               !is_of_file(source, name, length);
    }
    if (parent == NULL)
        return false;
    size_t word = parent->parent != NULL ? parent->parent->begin : 0;
    if (strncmp(source->text + word, "template", 8) == 0)
        word = source_skip(source->text,
                           source_skip_angles(source->text, source_skip(source->text, word + 8), parent->begin));
    *hidden_p = strncmp(source->text + word, "class", 5) == 0;
    FOR_EACH_INSIDE(node, parent) {
        const char *text = source->text + node->begin;
        if (node->parent != parent)
            continue;
        if (declares(source->text, own_part(node), name, length))
            return true;
        bool opens = strncmp(text, "public", 6) == 0;
        *hidden_p = !opens && (*hidden_p || strncmp(text, "private", 7) == 0 || strncmp(text, "protected", 9) == 0);
    }
    return false;
}

static void pass_expression(const struct passage *passage, char expression[LIFT_BYTES]);

/* Whether "&name" at `last` takes the address of all that the name is: not of a member or an element of it. */
static bool
takes_address(const char *text, size_t last, size_t next)
{
    bool is_part = text[next] == '.' || text[next] == '[' || strncmp(text + next, "->", 2) == 0;
    return text[last] == '&' && !is_part;
}

/* "name = ", "name += ", "++name", "&name". */
static bool
sets_name(const char *text, struct span part, const char *name, size_t length)
{
    for (size_t at = source_skip(text, part.begin), last = at, end; at < part.end;
         last = at, at = source_skip(text, end)) {
        end = source_token(text, at);
        if (!is_word(text, (struct span){at, end}, name, length) || strchr(".>", text[last]) != NULL)
            continue;
        size_t next = source_skip(text, end), sign = next + (strchr("+-", text[next]) != NULL);
        if ((text[sign] == '=' && text[sign + 1] != '=') || strncmp(text + next, "++", 2) == 0 ||
            takes_address(text, last, next) || (strchr("+-", text[last]) != NULL && text[last - 1] == text[last]))
            return true;
    }
    return false;
}

/* "n * 4" of "const size_t bytes = n * 4;", at the call; in front of it, of what is no constant, too. False: the
 * function declares no such value. */
static bool
pass_value(const struct passage *passage, const char *name, size_t length, char to[LIFT_BYTES])
{
    const struct source *inner = passage->inner;
    char value[LIFT_BYTES];
    FOR_EACH_INSIDE(node, passage->function) {
        struct span own = own_part(node);
        const char *text = inner->text + own.begin, *equal = memchr(text, '=', own.end - own.begin);
        bool may = node->begin < passage->said && (passage->is_front || strncmp(text, "const ", 6) == 0);
        if (node->is_block || !may || equal == NULL || memchr(text, ',', own.end - own.begin) != NULL ||
            !declares(inner->text, own, name, length))
            continue;
        struct span of = {(size_t)(equal + 1 - inner->text), own.end - 1};
        if (sets_name(inner->text, (struct span){own.end, passage->said}, name, length) ||
            !copy_span(inner->text, of, value))
            return false;
        pass_expression(passage, value);
        return value[0] != '\0' && snprintf(to, LIFT_BYTES, is_primary(value) ? "%s" : "(%s)", value) < LIFT_BYTES;
    }
    return false;
}

/* "in" of "net->x = in;", the only value that the function gives an expression before its use; "": several. */
static void
follow_value(const struct passage *passage, char expression[LIFT_BYTES])
{
    const struct source *inner = passage->inner;
    char text[LIFT_BYTES], value[LIFT_BYTES] = "";
    size_t length = strlen(expression);
    bool is_one = true;
    FOR_EACH_INSIDE(node, passage->function) {
        bool is_like = node->begin < passage->said && copy_span(inner->text, own_part(node), text) &&
                       strncmp(text, expression, length) == 0;
        size_t equal = length + strspn(text + length, " ");
        if (!is_like || text[equal] != '=' || text[equal + 1] == '=')
            continue;
        is_one = value[0] == '\0' && node->parent == source_block(passage->function);
        size_t begin = source_skip(text, equal + 1);
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(text + begin, ";"), text + begin);
    }
    if (value[0] != '\0')
        memcpy(expression, is_one ? value : "", is_one ? LIFT_BYTES : 1);
}

/* Whether a name is a parameter of a template around the function. *number_p: which, of the function's own one; else
 * SCOUT_NONE. */
static bool
is_of_template(const struct source_node *function, const char *name, size_t length, uint32_t *number_p)
{
    static const char word[] = "template";
    const char *text = function->source->text;
    for (const struct source_node *node = function; node != NULL; node = node->parent) {
        if (strncmp(text + node->begin, word, strlen(word)) != 0)
            continue;
        size_t at = source_skip(text, node->begin + strlen(word)), end = source_skip_angles(text, at, node->end);
        *number_p = node == function ? 0 : SCOUT_NONE;
        for (size_t next; at < end; at = source_skip(text, next)) {
            next = source_token(text, at);
            if (is_word(text, (struct span){at, next}, name, length))
                return true;
            *number_p += text[at] == ',' && node == function;
        }
    }
    return false;
}

/* "float" of "make<int, float>", number 1. */
static bool
template_argument(const char *function, uint32_t number, char to[LIFT_BYTES])
{
    const char *at = strchr(function, '<');
    int depth = 0;
    for (at += at != NULL; at != NULL && number > 0 && *at != '\0'; ++at) {
        depth += (*at == '<') - (*at == '>');
        number -= *at == ',' && depth == 0;
    }
    if (at == NULL || *at == '\0')
        return false;
    at += strspn(at, " ");
    size_t length = strcspn(at, ",<>");
    return at[length] != '<' && length > 0 && snprintf(to, LIFT_BYTES, "%.*s", (int)length, at) < LIFT_BYTES;
}

/* Whether parameters of templates, and constants of a class, alone make an expression what it is. */
static bool
is_fixed(const struct passage *passage, const char *expression)
{
    struct span name;
    uint32_t unused, count = 0;
    for (size_t at = 0; next_name(expression, &at, &name); ++count)
        if (!is_of_template(passage->function, expression + name.begin, name.end - name.begin, &unused) &&
            !is_constant(passage, expression + name.begin, name.end - name.begin))
            return false;
    return count > 0;
}

/* "layer->weight" of "layer->weight = (float *)call(...)"; what another call makes of the result is not that. */
static void
assigned_to(const char *text, struct span statement, const struct call *call, char to[LIFT_BYTES])
{
    size_t equal = 0, behind = source_skip(text, source_close(text, call->name.end));
    bool is_cast = false;
    to[0] = '\0';
    for (size_t at = source_skip(text, statement.begin), end; at < call->name.begin; at = source_skip(text, end)) {
        bool is_inside = strchr("([{", text[at]) != NULL && source_close(text, at) > call->name.begin;
        bool was_cast = is_cast;
        end = source_token(text, at);
        is_cast = (is_cast && !is_inside) || (end - at > 5 && strncmp(text + end - 5, "_cast", 5) == 0);
        if (text[at] == '=' && text[at + 1] != '=' && strchr("=!<>+-*/", text[at - 1]) == NULL)
            equal = at;
        else if (is_inside && !was_cast && (source_is_word(text[at - 1]) || text[at - 1] == '>'))
            equal = 0;
        if (strchr("([{", text[at]) != NULL && !is_inside)
            end = source_close(text, at);
    }
    if (equal == 0 || strchr(";),", text[behind]) == NULL)
        return;
    struct span left = {begin_of_postfix(text, statement.begin, equal), equal};
    size_t star = skip_back(text, statement.begin, left.begin);
    if (star > statement.begin && text[star - 1] == '*' && source_skip(text, statement.begin) == star - 1)
        left.begin = star - 1; /* no declaration */
    struct span type = {statement.begin, left.begin};
    bool is_declared = star > statement.begin && (source_is_word(text[star - 1]) || text[star - 1] == '>');
    if (!is_declared || has_word(text, type, "auto") || memchr(text + type.begin, '*', type.end - type.begin) != NULL)
        (void)copy_span(text, left, to); /* else a class that is made of the memory */
}

/* Whether a function's result is what an expression says; "": whether the statement returns its call's result. */
static bool
is_returned(const struct source_node *function, size_t said, const char *expression)
{
    const struct source *source = function->source;
    char text[LIFT_BYTES] = "";
    FOR_EACH_INSIDE(node, function) {
        struct span statement = own_part(node);
        if (strncmp(source->text + statement.begin, "return", 6) != 0 ||
            (expression[0] == '\0' && statement.begin != said) || !copy_span(source->text, statement, text))
            continue;
        const char *value = text + 6 + (text[6] == ' ');
        if (value[0] == '(' && source_close(value, 0) < strlen(value) - 1)
            value += source_close(value, 0); /* a cast */
        value += strspn(value, " ");
        if (expression[0] == '\0' || (strncmp(value, expression, strlen(expression)) == 0 &&
                                      value[strlen(expression) + strspn(value + strlen(expression), " ")] == ';'))
            return true;
    }
    return false;
}

/* What a name of the function is at the call. False: not to be said there. */
static bool
pass_name(const struct passage *passage, const char *name, size_t length, char to[LIFT_BYTES])
{
    const struct source *inner = passage->inner;
    char text[LIFT_BYTES];
    struct span before = {source_block(passage->function)->begin, passage->said};
    if (passage->is_front && sets_name(inner->text, before, name, length))
        return pass_value(passage, name, length, to);
    for (uint32_t i = 0; i < passage->parameters.count; ++i) {
        struct span parameter = parameter_name(inner->text, passage->parameters.arguments[i]);
        if (!is_word(inner->text, parameter, name, length))
            continue;
        if (i >= passage->call.count || !copy_span(passage->outer->text, passage->call.arguments[i], text) ||
            text[0] == '{')
            return false;
        return snprintf(to, LIFT_BYTES, is_primary(text) ? "%s" : "(%s)", text) < LIFT_BYTES;
    }
    if (is_declared(inner, name, length, passage->function->begin + 1, passage->said + 1)) {
        snprintf(text, sizeof(text), "%.*s", (int)length, name);
        if (pass_value(passage, name, length, to))
            return true;
        if (!is_returned(passage->function, passage->said, text))
            return false;
        assigned_to(passage->outer->text, passage->statement, &passage->call, to);
        return to[0] != '\0' && is_primary(to);
    }
    uint32_t number;
    if (is_of_template(passage->function, name, length, &number))
        return number != SCOUT_NONE && passage->name != NULL && template_argument(passage->name, number, to);
    if ((length == 4 && memcmp(name, "this", 4) == 0) || is_constant(passage, name, length) ||
        (inner != passage->outer && is_of_file(inner, name, length) && !is_of_file(passage->outer, name, length)))
        return false;
    text[0] = '\0';
    bool is_hidden = false;
    if (is_member(passage, name, length, &is_hidden)) {
        bool has_object = passage->call.object.end > passage->call.object.begin;
        size_t begin = passage->statement.begin, name_at = passage->call.name.begin;
        if (has_object ? is_hidden : is_behind_new(passage->outer->text, begin, name_at))
            return false;
        if (has_object && !copy_span(passage->outer->text, passage->call.object, text))
            return false;
    }
    return snprintf(to, LIFT_BYTES, "%s%.*s", text, (int)length, name) < LIFT_BYTES;
}

/* Says an expression of the function at its call; "" if that is not possible. */
static void
pass_expression(const struct passage *passage, char expression[LIFT_BYTES])
{
    char passed[LIFT_BYTES] = "", name[LIFT_BYTES];
    struct span span;
    size_t done = 0, length = 0;
    for (size_t at = 0; next_name(expression, &at, &span); done = span.end) {
        if (!pass_name(passage, expression + span.begin, span.end - span.begin, name)) {
            expression[0] = '\0';
            return;
        }
        bool is_arrow = strncmp(expression + span.end, "->", 2) == 0;
        size_t drop = expression[0] == '*' && span.begin == 1 && !is_arrow, size = strlen(name);
        char bare[LIFT_BYTES - 2] = "+";
        if (strncmp(name, "(&", 2) == 0 && (drop > 0 || is_arrow)) /* *(&w) is w, (&w)->x is w.x */
            snprintf(bare, sizeof(bare), "%.*s", (int)(size - strlen("(&)")), name + 2);
        if (is_primary(bare)) {
            snprintf(name, sizeof(name), "%s%s", bare, is_arrow ? "." : "");
            span.end += is_arrow ? 2 : 0;
        } else {
            drop = 0;
        }
        length += (size_t)snprintf(passed + length, LIFT_BYTES - length, "%.*s%s", (int)(span.begin - done - drop),
                                   expression + done + drop, name);
        if (length >= LIFT_BYTES) {
            expression[0] = '\0';
            return;
        }
    }
    if (length + (size_t)snprintf(passed + length, LIFT_BYTES - length, "%s", expression + done) >= LIFT_BYTES)
        passed[0] = '\0';
    memcpy(expression, passed, LIFT_BYTES);
}

/* ---- what a statement says of the memory ---- */

/* "w" of "&w", "(void **)&w"; "*w" of "w". */
static bool
pointed_to(const char *text, struct span argument, char to[LIFT_BYTES])
{
    size_t at = source_skip(text, argument.begin);
    static const char cast[] = "reinterpret_cast";
    if (strncmp(text + at, cast, strlen(cast)) == 0) {
        while (at < argument.end && text[at] != '(')
            ++at;
        argument.end = source_close(text, at) - 1;
        at = source_skip(text, at + 1);
    } else if (text[at] == '(') {
        size_t close = source_skip(text, source_close(text, at));
        if (close < argument.end)
            at = close;
    }
    argument.begin = text[at] == '&' ? at + 1 : at;
    if (!copy_span(text, argument, to) || strlen(to) + 2 > LIFT_BYTES)
        return false;
    if (text[at] != '&') {
        memmove(to + 1, to, strlen(to) + 1);
        to[0] = '*';
    }
    return true;
}

static bool
read_innermost(const struct source_node *node, size_t place, struct lifted *lifted)
{
    static const struct {
        const char *name;
        uint32_t bytes, stream; /* arguments; 0: none */
        bool copies;
    } calls[] = {
        {"cudaMalloc", 1, 0, false},        {"cudaMallocManaged", 1, 0, false}, {"cudaMallocAsync", 1, 0, false},
        {"cudaMallocHost", 1, 0, false},    {"cudaHostAlloc", 1, 0, false},     {"cuMemAlloc", 1, 0, false},
        {"cuMemAllocManaged", 1, 0, false}, {"cudaMemcpy", 2, 0, true},         {"cudaMemcpyAsync", 2, 4, true},
    };
    const char *text = node->source->text;
    struct call call;
    FOR_EACH(it, calls, sizeof(calls) / sizeof(calls[0])) {
        if (!find_call(text, own_part(node), it->name, place, &call) || call.count <= it->bytes)
            continue;
        return (it->copies ? copy_span : pointed_to)(text, call.arguments[0], lifted->memory) &&
               copy_span(text, call.arguments[it->bytes], lifted->bytes) &&
               (it->stream == 0 || it->stream >= call.count ||
                copy_span(text, call.arguments[it->stream], lifted->stream));
    }
    return false;
}

bool
lift_argument(const struct source_node *node, uint32_t slot, char to[LIFT_BYTES], bool *is_choice)
{
    const char *text = node->source->text;
    struct span own = own_part(node);
    struct call call = {.count = 0};
    for (size_t at = source_skip(text, own.begin), end; at < own.end && call.count <= slot;
         at = source_skip(text, end)) {
        bool launches = strncmp(text + at, ">>>", 3) == 0;
        end = launches ? at + 3 : source_token(text, at);
        size_t open = source_skip(text, end);
        bool calls = strncmp(text + at, "cublas", 6) == 0 || strncmp(text + at, "cudaMemcpy", 10) == 0;
        if ((launches || calls) && text[open] == '(')
            split_arguments(text, open, &call);
    }
    if (slot >= call.count || !copy_span(text, call.arguments[slot], to))
        return false;
    char *first = strchr(to, '?'), *other = first != NULL ? strrchr(first, ':') : NULL;
    *is_choice = *is_choice || first != NULL;
    if (other != NULL && memmem(to, (size_t)(first - to), "==", 2) != NULL) {
        while (isspace((unsigned char)other[-1]))
            --other;
        *other = '\0';
        first += 1 + strspn(first + 1, " \t\n");
        memmove(to, first, strlen(first) + 1);
    }
    return strpbrk(to, "={?") == NULL && strstr(to, "++") == NULL && strstr(to, "--") == NULL;
}

/* The statement of a frame, also among several of one line: that of the call. NULL: not known. */
static const struct source_node *
statement_of(struct sources *sources, const struct site_place *frames, uint32_t depth)
{
    const struct site_place *at = &frames[depth];
    const struct source *source = sources_open(sources, at->file);
    if (source == NULL || depth > 0)
        return source == NULL ? NULL : source_statement_calling(source, at->line, at->column, at[-1].function);
    const struct source_node *makes = source_statement_calling(source, at->line, at->column, "cudaMalloc"),
                             *copies = source_statement_calling(source, at->line, at->column, "cudaMemcpy");
    return makes == NULL || copies == makes ? copies : copies == NULL ? makes : NULL;
}

/* Finds the call of a frame's function in its caller's statement. */
static bool
find_passage(struct sources *sources, const struct source_node *statement, const struct site_place *frames,
             uint32_t depth, struct passage *passage)
{
    const struct site_place *from = &frames[depth - 1], *at = &frames[depth];
    const struct source_node *node = statement_of(sources, frames, depth - 1);
    passage->function = node != NULL ? source_function(node) : NULL;
    if (passage->function == NULL)
        return false;
    passage->inner = node->source;
    passage->said = node->begin;
    passage->outer = statement->source;
    passage->statement = own_part(statement);
    passage->name = from->function;
    struct span header = {passage->function->begin, source_block(passage->function)->begin};
    if (!find_call(passage->inner->text, header, from->function, 0, &passage->parameters))
        return false;
    size_t place = source_place(passage->outer, at->line, at->column);
    return find_call(passage->outer->text, passage->statement, from->function, place, &passage->call);
}

/* Whether a statement calls a function, or, NULL, one of CUDA's for memory. */
static bool
makes_call(const struct source_node *node, const char *callee)
{
    struct lifted said = {0};
    return callee != NULL ? has_word(node->source->text, own_part(node), callee) : read_innermost(node, 0, &said);
}

/* A function that the statement calls, and that ends with such a call: it ends by a jump there, and its frame is
 * missing. */
static bool
find_tail(const struct sources *sources, const struct source_node *statement, const char *callee,
          struct site_place *tail)
{
    const char *text = statement->source->text;
    struct span own = own_part(statement);
    struct call header;
    for (size_t at = source_skip(text, own.begin), end, next; at < own.end; at = next) {
        end = source_token(text, at);
        next = source_skip(text, end);
        bool is_call = source_is_word(text[at]) && /* or a constructor's */
                       (text[next] == '(' || source_is_word(text[next]));
        snprintf(tail->function, sizeof(tail->function), "%.*s", (int)(end - at), text + at);
        for (uint32_t f = 0; f < sources->count && is_call; ++f)
            FOR_EACH_NODE(node, sources->files[f]->first) {
                const char *theirs = sources->files[f]->text;
                const struct source_node *block = source_function(node) == node ? source_block(node) : NULL,
                                         *last = block;
                if (block == NULL ||
                    !find_call(theirs, (struct span){node->begin, block->begin}, tail->function, 0, &header))
                    continue;
                FOR_EACH_INSIDE(it, block)
                    last = it->parent == block ? it : last;
                if (!makes_call(last, callee))
                    continue;
                snprintf(tail->file, sizeof(tail->file), "%s", sources->files[f]->path);
                tail->line = source_line(sources->files[f], last->begin);
                return true;
            }
    }
    return false;
}

bool
lift_find_tail(struct sources *sources, const char *callee, const struct site_place *from, struct site_place *tail)
{
    const struct source *source = sources_open(sources, from->file);
    const struct source_node *node = source != NULL ? source_statement(source, from->line, from->column) : NULL;
    *tail = (struct site_place){0};
    return node != NULL && !makes_call(node, callee) && find_tail(sources, node, callee, tail);
}

void
lift_to_front(const struct source_node *loop, char expression[LIFT_BYTES])
{
    const char *text = loop->source->text, *header = text + loop->begin;
    size_t begin = loop->begin, end = begin + strcspn(header, ";{"), equal = begin + strcspn(header, "=");
    char first[LIFT_BYTES], said[LIFT_BYTES];
    struct span name;
    if (strncmp(header, "for", 3) != 0 || equal >= end || memchr(header, ',', end - begin) != NULL ||
        !copy_span(text, (struct span){equal + 1, end}, first))
        return;
    size_t at_name = begin_of_postfix(text, begin, equal);
    struct span variable = {at_name, source_token(text, at_name)};
    for (size_t at = 0; next_name(expression, &at, &name);) {
        if (!is_word(text, variable, expression + name.begin, name.end - name.begin))
            continue;
        if (snprintf(said, sizeof(said), is_primary(first) ? "%.*s%s%s" : "%.*s(%s)%s", (int)name.begin, expression,
                     first, expression + name.end) >= LIFT_BYTES)
            return;
        memcpy(expression, said, sizeof(said));
        at = name.begin + strlen(first);
    }
}

bool
lift_changes(const struct source *source, struct span part, const struct lifted *lifted)
{
    const char *const expressions[] = {lifted->memory, lifted->bytes};
    struct span name;
    bool changes = false;
    for (size_t i = 0; i < 2; ++i)
        for (size_t at = 0; next_name(expressions[i], &at, &name) && !changes;)
            changes = sets_name(source->text, part, expressions[i] + name.begin, name.end - name.begin) ||
                      is_declared(source, expressions[i] + name.begin, name.end - name.begin, part.begin, part.end);
    return changes;
}

bool
lift(struct sources *sources, const struct site_place *frames, uint32_t depth, struct lifted *lifted)
{
    struct passage passage = {0};
    *lifted = (struct lifted){0};
    for (uint32_t i = 0; i <= depth; ++i) {
        const struct source_node *node = statement_of(sources, frames, i);
        if (node == NULL)
            return false;
        const char *text = node->source->text + node->begin;
        if (i == 0) {
            size_t place = source_place(node->source, frames[i].line, frames[i].column);
            struct site_place both[2] = {{.line = 0}, frames[0]};
            if (!read_innermost(node, place, lifted) &&
                (!find_tail(sources, node, NULL, &both[0]) || !lift(sources, both, 1, lifted)))
                return false;
        } else {
            if (!find_passage(sources, node, frames, i, &passage))
                return false;
            bool returns = is_returned(passage.function, passage.said, lifted->memory);
            pass_expression(&passage, lifted->stream);
            pass_expression(&passage, lifted->memory);
            lifted->is_fixed = lifted->is_fixed || is_fixed(&passage, lifted->bytes);
            pass_expression(&passage, lifted->bytes);
            lifted->is_fixed = lifted->is_fixed && lifted->bytes[0] == '\0';
            if (lifted->memory[0] == '\0' && returns)
                assigned_to(node->source->text, passage.statement, &passage.call, lifted->memory);
        }
        if (i == depth && strncmp(text, "if", 2) == 0 &&
            declares(text, (struct span){strcspn(text, "(") + 1, own_part(node).end - node->begin}, lifted->memory,
                     strlen(lifted->memory)))
            return false; /* "if (float *w = make(n))": after the statement the name is not known */
    }
    return lifted->memory[0] != '\0' || lifted->bytes[0] != '\0';
}

bool
lift_up(struct sources *sources, const struct site_place *frames, uint32_t depth, char expression[LIFT_BYTES])
{
    const struct source_node *node = statement_of(sources, frames, depth);
    struct passage passage = {.is_front = true};
    if (node == NULL || !find_passage(sources, node, frames, depth, &passage))
        return false;
    struct call *call = &passage.call, first; /* a call makes an argument of the call, before it: the launch is its */
    while (call->count > 0 &&
           find_call(node->source->text, (struct span){call->arguments[0].begin, call->arguments[call->count - 1].end},
                     frames[depth - 1].function, SIZE_MAX, &first))
        *call = first;
    follow_value(&passage, expression);
    pass_expression(&passage, expression);
    return expression[0] != '\0';
}

char *
lift_bare(char *expression)
{
    size_t length = strlen(expression);
    while (expression[0] == '(' && source_close(expression, 0) == length) {
        expression[length - 1] = '\0';
        ++expression;
        length -= 2;
    }
    return expression;
}
