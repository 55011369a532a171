/*
 * test_text.c - softgpu/text: tokens, brackets, statements, declarations and calls of text that tempts a reader, and
 * what holds of any text.
 */
#include "text/calls.h"
#include "text/declarations.h"
#include "text/statements.h"

#include "tests/lib/test.h"

enum { SHOWN_BYTES = 512 };

static struct code
read_code(const char *text)
{
    struct code code;
    ck_assert(code_read(text, strlen(text), &code));
    return code;
}

static void
show(char shown[SHOWN_BYTES], const char *text, size_t length)
{
    size_t used = strlen(shown);
    ck_assert_uint_lt(used + length + 1, SHOWN_BYTES);
    memcpy(shown + used, text, length);
    shown[used + length] = '\0';
}

static void
show_token(char shown[SHOWN_BYTES], const struct code *code, uint32_t i)
{
    show(shown, code->text + code->tokens[i].begin, code->tokens[i].length);
}

static void
show_range(char shown[SHOWN_BYTES], const struct code *code, struct token_range range)
{
    for (uint32_t i = range.first; i < range.end; ++i)
        show_token(shown, code, i);
}

/* ---- tokens ---- */

static const struct {
    const char *text;
    const char *tokens; /* with a blank between them */
} token_rows[] = {
    {"a+b", "a + b"},
    {"a /* b */ c // d\ne", "a c e"},
    {"a // b \\\n c\nd", "a d"},
    {"a \\\n b", "a b"},
    {"#define X { \\\n a\nb", "b"},
    {"#define X /* { \n } */ y\nb", "b"},
    {"#define X \"/*\"\nb", "b"},
    {"  # if 0\na", "a"},
    {"a # b", "a # b"},
    {"a \\\n# b", "a # b"},
    {"f(\"a // b\\\" c\")", "f ( \"a // b\\\" c\" )"},
    {"x = '\"'; y", "x = '\"' ; y"},
    {"R\"x(a)\" \")x\" b", "R\"x(a)\" \")x\" b"},
    {"LR\"(a\"b)\"s c", "LR\"(a\"b)\" s c"},
    {"u8\"a\"_s 'b'", "u8\"a\"_s 'b'"},
    {"R\"(a)b)\" c", "R\"(a)b)\" c"},
    {"R\"(open", "R\"(open"},
    {"1'000.5e-3f .5 0x1p+3", "1'000.5e-3f .5 0x1p+3"},
    {"a<<<1, b>>>(c)", "a < < < 1 , b > > > ( c )"},
    {"a->b::c ... ++d <= e", "a -> b :: c ... ++ d <= e"},
    {"don't\nb", "don 't b"},
    {"", ""},
};

TABLE_TEST(text_is_split_into_tokens, token_rows)
{
    struct code code = read_code(token_rows[_i].text);
    char shown[SHOWN_BYTES] = "";
    for (uint32_t i = 0; i < code.count; ++i) {
        show(shown, " ", i > 0);
        show_token(shown, &code, i);
    }
    ck_assert_str_eq(shown, token_rows[_i].tokens);
    ck_assert_uint_eq(code.tokens[code.count].kind, TOKEN_END);
    code_free(&code);
}

static const struct {
    const char *text; /* has a word `here` */
    uint32_t line;
} line_rows[] = {
    {"here", 1},
    {"\n\nhere", 3},
    {"/* \n */ here", 2},
    {"// a \\\n b\nhere", 3},
    {"#define X \\\n y\nhere", 3},
    {"R\"(\n\n)\" here", 3},
    {"\"a\\\nb\" here", 2},
    {"a \\\n here", 2},
};

TABLE_TEST(tokens_know_their_lines, line_rows)
{
    struct code code = read_code(line_rows[_i].text);
    ck_assert(token_is(&code, code.count - 1, "here"));
    ck_assert_uint_eq(code.tokens[code.count - 1].line, line_rows[_i].line);
    code_free(&code);
}

TEST(directives_say_which_token_follows)
{
    struct code code = read_code("a\n#define X \\\n y\nb\n#if 1");
    ck_assert_uint_eq(code.directive_count, 2);
    ck_assert_uint_eq(code.directives[0].next, 1);
    ck_assert_uint_eq(code.directives[0].next_line, 4);
    ck_assert_uint_eq(code.directives[0].end - code.directives[0].begin, strlen("#define X \\\n y"));
    ck_assert_uint_eq(code.directives[1].next, 2);
    code_free(&code);
}

static const struct {
    const char *text;
    int partners[8]; /* of each token; -1: none */
    int unmatched;   /* -1: all brackets fit */
} bracket_rows[] = {
    {"(a[b]{})", {7, -1, 4, -1, 2, 6, 5, 0}, -1},
    {"{(}", {2, -1, 0}, 2},
    {"{)}", {2, -1, 0}, 1},
    {"(", {-1}, 0},
    {"a)", {-1, -1}, 1},
    {"{{}", {-1, 2, 1}, 0},
};

TABLE_TEST(brackets_that_fit_are_partners, bracket_rows)
{
    struct code code = read_code(bracket_rows[_i].text);
    for (uint32_t i = 0; i < code.count; ++i) {
        const int partner = bracket_rows[_i].partners[i];
        ck_assert_uint_eq(code.tokens[i].match, partner < 0 ? 0 : (uint32_t)partner);
    }
    const int unmatched = bracket_rows[_i].unmatched;
    ck_assert_uint_eq(code.unmatched, unmatched < 0 ? code.count : (uint32_t)unmatched);
    code_free(&code);
}

/* ---- statements ---- */

static const struct {
    const char *text;
    const char *statements; /* each between '<' and '>'; a loop's begins with '*'; blocks have their braces */
} statement_rows[] = {
    {"a; b;", "<a;><b;>"},
    {"void f(int x) { a; }", "<voidf(intx){<a;>}>"},
    {"if (a) b; else { c; } d;", "<if(a)<b;>else{<c;>}><d;>"},
    {"for (int i = 0; i < n; ++i) f(i);", "<*for(inti=0;i<n;++i)<f(i);>>"},
    {"do { a; } while (b); c;", "<*do{<a;>}while(b);><c;>"},
    {"int x[] = {1, 2}; b;", "<intx[]={<1,2>};><b;>"},
    {"f([&] { a; }); b;", "<f([&]{<a;>});><b;>"},
    {"switch (a) { case 1: b; default: c; }", "<switch(a){<case1:><b;><default:><c;>}>"},
    {"class A { public: int b; };", "<classA{<public:><intb;>};>"},
    {"CREATE(w)\nx = 1;", "<CREATE(w)><x=1;>"},
    {"CREATE(w) x;", "<CREATE(w)x;>"},
    {"if constexpr (a) b;", "<ifconstexpr(a)<b;>>"},
    {"} a;", "}<a;>"},
    {"f() { a;", "<f(){<a;>>"},
    {"#if A\nf() {\n#else\ng() {\n#endif\na; }", "<f(){<g(){<a;>}>>"},
};

TABLE_TEST(statements_are_told_from_braces_and_semicolons, statement_rows)
{
    struct code code = read_code(statement_rows[_i].text);
    struct statements statements;
    char shown[SHOWN_BYTES] = "";
    statements_read(&code, &statements);
    for (uint32_t i = 0; i <= code.count; ++i) {
        for (uint32_t s = 0; s < statements.count; ++s) {
            const struct statement *it = &statements.list[s];
            if (!it->is_block && it->tokens.end == i)
                show(shown, ">", 1);
        }
        for (uint32_t s = 0; s < statements.count; ++s) {
            const struct statement *it = &statements.list[s];
            if (!it->is_block && it->tokens.first == i)
                show(shown, it->is_loop ? "<*" : "<", it->is_loop ? 2 : 1);
        }
        if (i < code.count)
            show_token(shown, &code, i);
    }
    ck_assert_str_eq(shown, statement_rows[_i].statements);
    statements_free(&statements);
    code_free(&code);
}

static const struct {
    const char *text;     /* has a word `here` */
    const char *function; /* the first tokens of the function around it; NULL: none is */
    const char *own;      /* of the innermost statement around `here` */
} function_rows[] = {
    {"void f(int a) { if (a) { here; } }", "voidf(", "here;"},
    {"int here = 1;", NULL, "inthere=1;"},
    {"class A { void f() { here(); } };", "voidf(", "here();"},
    {"namespace n { template <class T> void f() { here; } }", "template<", "here;"},
    {"struct here { int a; };", NULL, "structhere"},
    {"for (int here = 0; here < 3; ++here) a;", NULL, "for(inthere=0;here<3;++here)"},
    {"template <class T> struct A { int here; };", NULL, "inthere;"},
};

TABLE_TEST(functions_are_no_classes, function_rows)
{
    struct code code = read_code(function_rows[_i].text);
    struct statements statements;
    char function[SHOWN_BYTES] = "", own[SHOWN_BYTES] = "";
    statements_read(&code, &statements);
    uint32_t here = 0;
    while (!token_is(&code, here, "here"))
        ++here;
    const uint32_t at = statement_at(&statements, here), found = statement_function(&statements, at);
    ck_assert_uint_ne(at, STATEMENT_NONE);
    show_range(own, &code, statement_own(&statements, at));
    ck_assert_msg(strncmp(own, function_rows[_i].own, strlen(function_rows[_i].own)) == 0, "%s", own);
    ck_assert_int_eq(found != STATEMENT_NONE, function_rows[_i].function != NULL);
    if (found != STATEMENT_NONE) {
        show_range(function, &code, statements.list[found].tokens);
        ck_assert_msg(strncmp(function, function_rows[_i].function, strlen(function_rows[_i].function)) == 0, "%s",
                      function);
        ck_assert(token_is(&code, statements.list[statement_block(&statements, found)].tokens.first, "{"));
    }
    statements_free(&statements);
    code_free(&code);
}

/* ---- declarations ---- */

static const struct {
    const char *statement, *name;
    bool declares;
} declaration_rows[] = {
    {"float *w = make(n);", "w", true},
    {"float *w = make(n);", "n", false},
    {"int a, *b = 3, c[4];", "c", true},
    {"int a, *b = 3, c[4];", "b", true},
    {"w = make(n);", "w", false},
    {"std::vector<float> w(n);", "w", true},
    {"std::map<int, T> w;", "w", true},
    {"std::map<int, T> w;", "T", false},
    {"auto &[a, w] = pair;", "w", true},
    {"float x[w];", "w", false},
    {"return w;", "w", false},
    {"delete w;", "w", false},
    {"f(a, w);", "w", false},
    {"const Net::Layer &w = l;", "w", true},
    {"net->w = 3;", "w", false},
    {"Net::Layer w;", "Layer", false},
    {"unsigned w : 3;", "w", true},
    {"throw w;", "w", false},
    {"f(a), w = 3;", "w", false},
};

TABLE_TEST(statements_declare_names, declaration_rows)
{
    struct code code = read_code(declaration_rows[_i].statement);
    const char *name = declaration_rows[_i].name;
    ck_assert_int_eq(token_declares(&code, (struct token_range){0, code.count}, name, strlen(name)),
                     declaration_rows[_i].declares);
    code_free(&code);
}

/* ---- calls ---- */

static const struct {
    const char *text, *function; /* NULL: the launch */
    const char *parts;           /* object, name, arguments; NULL: there is no call, or it is not known which */
} call_rows[] = {
    {"x = make(n, 2 * (a, b));", "make", "|make|n|2*(a,b)"},
    {"net->layer[0].make<float, 3>(n);", "make", "net->layer[0].|make|n"},
    {"make<int>(n);", "make<float>", "|make|n"},
    {"make();", "make", "|make"},
    {"remake(n);", "make", NULL},
    {"make = n;", "make", NULL},
    {"make(a); make(b);", "make", NULL},
    {"f(\"make(x)\" /* make(y) */);", "make", NULL},
    {"kernel<T><<<grid(1), 2, 0, s>>>(a, f<1>(b));", NULL, "|<|a|f<1>(b)"},
    {"a << b;", NULL, NULL},
};

TABLE_TEST(calls_have_an_object_and_arguments, call_rows)
{
    struct code code = read_code(call_rows[_i].text);
    struct call call;
    char shown[SHOWN_BYTES] = "";
    bool found = false;
    if (call_rows[_i].function != NULL)
        found = call_find(&code, (struct token_range){0, code.count}, call_rows[_i].function, SIZE_MAX, &call);
    for (uint32_t i = 0; call_rows[_i].function == NULL && i < code.count && !found; ++i)
        found = call_read_launch(&code, i, &call);
    ck_assert_int_eq(found, call_rows[_i].parts != NULL);
    if (found) {
        show_range(shown, &code, call.object);
        show(shown, "|", 1);
        show_token(shown, &code, call.name);
        for (uint32_t a = 0; a < call.count; ++a) {
            show(shown, "|", 1);
            show_range(shown, &code, call.arguments[a]);
        }
        ck_assert_str_eq(shown, call_rows[_i].parts);
    }
    code_free(&code);
}

TEST(of_several_calls_the_innermost_around_a_place_counts)
{
    const char *text = "make(make(a)); make(b);";
    struct code code = read_code(text);
    const struct token_range all = {0, code.count};
    struct call call;
    ck_assert(call_find(&code, all, "make", (size_t)(strchr(text, 'a') + 4 - text), &call));
    ck_assert_uint_eq(call.name, 2);
    ck_assert(call_find(&code, all, "make", (size_t)(strchr(text, 'b') - text), &call));
    ck_assert(token_is(&code, call.arguments[0].first, "b"));
    ck_assert(!call_find_outermost(&code, all, "make", &call));
    ck_assert(call_find_outermost(&code, (struct token_range){0, 7}, "make", &call));
    ck_assert_uint_eq(call.name, 0);
    code_free(&code);
}

/* ---- any text ---- */

/* Pieces of C++ in any order: most of what comes is no C++. */
static char *
random_text(unsigned seed)
{
    static const char *const pieces[] = {
        "a",     "b9",  "(",      ")",        "[",      "]",     "{",       "}",    ";",   ",",    "<",
        ">",     "<<<", ">>>",    "\n",       "\\\n",   " ",     "#",       "\"",   "'",   "R\"(", ")\"",
        "/*",    "*/",  "//",     "->",       "::",     "=",     "1e+",     "if",   "for", "do ",  "else ",
        "case ", ":",   "A(b)\n", "template", "class ", "auto ", "return ", "int ", "*",   "&",    "."};
    enum { PIECES = sizeof(pieces) / sizeof(pieces[0]), LENGTH = 60 };
    char *text = calloc(LENGTH, 16);
    for (unsigned i = 0; i < LENGTH; ++i) {
        seed = seed * 1664525u + 1013904223u;
        strcat(text, pieces[(seed >> 16) % PIECES]);
    }
    return text;
}

static void
check_statements(const struct code *code)
{
    struct statements statements;
    statements_read(code, &statements);
    for (uint32_t s = 0; s < statements.count; ++s) {
        const struct statement *it = &statements.list[s];
        ck_assert_uint_le(it->tokens.first, it->tokens.end);
        ck_assert_uint_le(it->tokens.end, code->count);
        if (s > 0)
            ck_assert_uint_le(it[-1].tokens.first, it->tokens.first);
        if (it->parent != STATEMENT_NONE) {
            ck_assert_uint_lt(it->parent, s);
            ck_assert_uint_le(it->tokens.end, statements.list[it->parent].tokens.end);
        }
        const struct token_range own = statement_own(&statements, s);
        ck_assert_uint_le(own.end, it->tokens.end);
        (void)statement_function(&statements, s);
        (void)token_declares(code, own, "a", 1);
    }
    statements_free(&statements);
}

SEED_TEST(any_text_can_be_read, 0, 4096)
{
    char *text = random_text(seed);
    struct code code = read_code(text);
    uint32_t end = 0;
    for (uint32_t i = 0; i < code.count; ++i) {
        const struct token *token = &code.tokens[i];
        ck_assert_uint_ge(token->begin, end);
        ck_assert_uint_gt(token->length, 0);
        end = token_end(&code, i);
        ck_assert_uint_eq(code_token_at(&code, token->begin), i);
        if (token->match != 0)
            ck_assert_uint_eq(code.tokens[token->match].match, i);
        struct call call;
        if (call_read(&code, i, 0, &call) || call_read_launch(&code, i, &call))
            ck_assert_uint_le(call.close, code.count);
    }
    ck_assert_uint_le(end, code.length);
    check_statements(&code);
    code_free(&code);
    free(text);
}
