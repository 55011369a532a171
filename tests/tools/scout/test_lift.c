/*
 * test_lift.c - how memory is called in the functions around the call that allocates it, what an argument is in a
 * caller, and which lines give a number its value: by sources with a frame in each line that ends with its number.
 */
#include "tools/check/command/settings.h"
#include "tools/scout/command/report/expression.h"
#include "tools/scout/command/report/lines.h"

#include "tests/lib/test.h"

enum { FRAMES_AT_MOST = 4 };

static char path[] = "/tmp/ddprun-lift-XXXXXX";
static struct sources sources;

static void
begin(void)
{
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
}

static void
end(void)
{
    sources_close(&sources);
    unlink(path);
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

/* Writes the source, and finds the frames: line "... //2" has frame 2. Returns how many there are. */
static uint32_t
write_source(const char *text, const char *const functions[], struct site_place frames[FRAMES_AT_MOST])
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    uint32_t count = 0;
    for (char mark[] = "//0"; count < FRAMES_AT_MOST && strstr(text, mark) != NULL; ++mark[2]) {
        struct site_place *frame = &frames[count++];
        *frame = (struct site_place){.line = 1, .column = 1};
        const char *line = text;
        for (const char *c = text; c < strstr(text, mark); ++c) {
            frame->line += *c == '\n';
            line = *c == '\n' ? c + 1 : line;
        }
        frame->column += (int)strspn(line, " ");
        snprintf(frame->file, sizeof(frame->file), "%s", path);
        snprintf(frame->function, sizeof(frame->function), "%s", functions[count - 1]);
    }
    return count;
}

#define MAKE \
    "float *make(int n)\n{\n    float *p = nullptr;\n    cudaMalloc(&p, n * sizeof(float)); //0\n    return p;\n}\n"

#define OWNER                                                                                                       \
    "using gpu_ptr = std::unique_ptr<float[], Free>;\ngpu_ptr own(int n) {\n    float *p;\n    cudaMalloc(&p, n); " \
    "//0\n    return gpu_ptr(p);\n}\n"
#define MATRIX \
    "struct Matrix {\n    float *d;\n    Matrix(int r, int c) {\n        cudaMalloc(&d, r * c); //0\n    }\n};\n"

static const struct {
    const char *text;
    const char *functions[FRAMES_AT_MOST];
    const char *memory, *bytes; /* as the outermost frame says it */
} lift_rows[] = {
    {"void f() {\n    cudaMalloc((void **)&net->w[i], n * 4); //0\n}\n", {"f"}, "net->w[i]", "n * 4"},
    {"void f() {\n    cudaMalloc(reinterpret_cast<void **>(&net.w), n); //0\n}\n", {"f"}, "net.w", "n"},
    {"void f(float **to) {\n    cudaMalloc(to, /* bytes */ n); //0\n}\n", {"f"}, "*to", "n"},
    {MAKE "int main() {\n    float *w = make(3 * k); //1\n}\n", {"make", "main"}, "w", "(3 * k) * sizeof(float)"},
    {MAKE "int main() {\n    l->w = (float *)make(k); //1\n}\n", {"make", "main"}, "l->w", "k * sizeof(float)"},
    {MAKE "int main() {\n    f(make(k)); //1\n}\n", {"make", "main"}, "", "k * sizeof(float)"},
    {"void make(float **p, int n) {\n    cudaMalloc(p, n); //0\n}\nint main() {\n    make(&w, 8); //1\n}\n",
     {"make", "main"},
     "w",
     "8"},
    {"void make(struct t *t, int n) {\n    cudaMalloc(&t->p, n); //0\n}\nint main() {\n    make(&l->w, 8); //1\n}\n",
     {"make", "main"},
     "l->w.p",
     "8"},
    {"template <class T> T *make(int n) {\n    T *p;\n    cudaMalloc(&p, n * sizeof(T)); //0\n    return p;\n}\n"
     "int main() {\n    float *w = make<float>(7); //1\n}\n",
     {"make<float>", "main"},
     "w",
     "7 * sizeof(float)"},
    {"struct T {\n    float *p;\n    void make(int n) {\n        cudaMalloc(&p, n); //0\n    }\n};\n"
     "int main() {\n    net.layer[1].make(9); //1\n}\n",
     {"make", "main"},
     "net.layer[1].p",
     "9"},
    {"class T {\n    float *p;\npublic:\n    void make(int n) {\n        cudaMalloc(&p, n); //0\n    }\n};\n"
     "int main() {\n    net.make(9); //1\n}\n",
     {"make", "main"},
     "",
     "9"},
    {OWNER "int main() {\n    auto w = own(3); //1\n}\n", {"own", "main"}, "w.get()", "3"},
    {OWNER "int main() {\n    gpu_ptr w = own(3); //1\n}\n", {"own", "main"}, "w.get()", "3"},
    {OWNER "int main() {\n    Net w = {own(3)}; //1\n}\n", {"own", "main"}, "", ""},
    {OWNER "int main() {\n    gpu_ptr v = own(2), w =\n    own(3); //1\n}\n", {"own", "main"}, "w.get()", "3"},
    {OWNER "void f() {\n    list_.push_back(own(3)); //1\n}\n", {"own", "f"}, "list_.back().get()", "3"},
    {OWNER "void f() {\n    use(own(3)); //1\n}\n", {"own", "f"}, "", "3"},
    {OWNER "struct Net {\n    int n;\n    gpu_ptr w;\n    Net(int k) : n(k), w(own(k)) //1\n    {\n    }\n};\n",
     {"own", "Net"},
     "w.get()",
     "k"},
    {OWNER "struct Net {\n    gpu_ptr w, g;\n    Net(int k) : w(own(k)),\ng(own(3)) //1\n    {\n    }\n};\n",
     {"own", "Net"},
     "g.get()",
     "3"},
    {OWNER "gpu_ptr own2(int n) {\n    return own(2 * n); //1\n}\nint main() {\n    auto w = own2(3); //2\n}\n",
     {"own", "own2", "main"},
     "w.get()",
     "(2 * 3)"},
    {OWNER "Net own2(int n) {\n    return Net(own(2 * n)); //1\n}\nint main() {\n    auto w = own2(3); //2\n}\n",
     {"own", "own2", "main"},
     "",
     "(2 * 3)"},
    {"std::shared_ptr<float> own(int n) {\n    float *p;\n    cudaMalloc(&p, n); //0\n"
     "    return std::shared_ptr<float>(p, cudaFree);\n}\nint main() {\n    net->w = own(3); //1\n}\n",
     {"own", "main"},
     "net->w.get()",
     "3"},
    {"std::unique_ptr<float> own(int n) {\n    float *p, *q;\n    cudaMalloc(&p, n); //0\n"
     "    return std::unique_ptr<float>(q);\n}\nint main() {\n    auto w = own(3); //1\n}\n",
     {"own", "main"},
     "",
     "3"},
    {"Tensor own(int n) {\n    float *p;\n    cudaMalloc(&p, n); //0\n    return Tensor(p);\n}\n"
     "int main() {\n    auto w = own(3); //1\n}\n",
     {"own", "main"},
     "",
     "3"},
    {MATRIX "int main() {\n    Matrix w(2, 3); //1\n}\n", {"Matrix", "main"}, "w.d", "2 * 3"},
    {MATRIX "int main() {\n    Matrix *w = new Matrix(2, 3); //1\n}\n", {"Matrix", "main"}, "w->d", "2 * 3"},
    {MATRIX "int main() {\n    Matrix w(2, 3), v(4, 5); //1\n}\n", {"Matrix", "main"}, "", ""},
    {MATRIX "struct Net {\n    Matrix w;\n    int n;\n    Net(int k) : w(k, 3), n(k) { //1\n    }\n};\n"
            "int main() {\n    Net net(9); //2\n}\n",
     {"Matrix", "Net", "main"},
     "net.w.d",
     "9 * 3"},
    {"void make(int n) {\n    const size_t bytes = n * 4;\n    cudaMalloc(&w, bytes); //0\n}\n"
     "int main() {\n    make(2); //1\n}\n",
     {"make", "main"},
     "w",
     "(2 * 4)"},
};

TEST_GROUP(files, .setup = begin, .teardown = end);

TABLE_TEST(memory_has_the_name_of_its_caller, lift_rows)
{
    struct site_place frames[FRAMES_AT_MOST];
    struct lifted lifted;
    const uint32_t count = write_source(lift_rows[_i].text, lift_rows[_i].functions, frames);
    const bool is_said = lift(&sources, frames, count - 1, &lifted);
    ck_assert_int_eq(is_said, lift_rows[_i].memory[0] != '\0' || lift_rows[_i].bytes[0] != '\0');
    ck_assert_str_eq(is_said ? lifted.memory : "", lift_rows[_i].memory);
    ck_assert_str_eq(is_said ? lifted.bytes : "", lift_rows[_i].bytes);
}

static const struct {
    const char *text;
    const char *functions[FRAMES_AT_MOST];
    const char *said; /* by the innermost frame's launch, argument 1, as the outermost frame has it; "": not known */
} argument_rows[] = {
    {"void f(float a) {\n    k<<<1, 2>>>(x, a * 2); //0\n}\nint main() {\n    f(rate + 1); //1\n}\n",
     {"f", "main"},
     "(rate + 1) * 2"},
    {"void f(float a) {\n    a = 3;\n    k<<<1, 2>>>(x, a); //0\n}\nint main() {\n    f(rate); //1\n}\n",
     {"f", "main"},
     "3"},
    {"void f(float a) {\n    if (b)\n        a = 3;\n    k<<<1, 2>>>(x, a); //0\n}\nint main() {\n    f(rate); "
     "//1\n}\n",
     {"f", "main"},
     ""},
    {"void f(int a) {\n    if (b && a) c();\n    k<<<1, 2>>>(x, a); //0\n}\nint main() {\n    f(rate); //1\n}\n",
     {"f", "main"},
     "rate"},
    {"void f(int a) {\n    g(&a);\n    k<<<1, 2>>>(x, a); //0\n}\nint main() {\n    f(rate); //1\n}\n",
     {"f", "main"},
     ""},
    {"void f(int a) {\n    int b = a + 1;\n    k<<<1, 2>>>(x, b); //0\n}\nint main() {\n    f(rate); //1\n}\n",
     {"f", "main"},
     "(rate + 1)"},
};

TABLE_TEST(an_argument_is_known_in_the_caller, argument_rows)
{
    struct site_place frames[FRAMES_AT_MOST];
    char said[LIFT_BYTES];
    bool is_choice = false;
    const uint32_t count = write_source(argument_rows[_i].text, argument_rows[_i].functions, frames);
    const struct source_node *node = source_statement(sources_open(&sources, path), frames[0].line, 0);
    ck_assert_ptr_nonnull(node);
    ck_assert(lift_argument(node, 1, said, &is_choice));
    for (uint32_t i = 1; i < count && said[0] != '\0'; ++i)
        if (!lift_up(&sources, frames, i, said))
            said[0] = '\0';
    ck_assert_str_eq(said, argument_rows[_i].said);
}

static const struct {
    const char *text; /* of `v` */
    bool sets;
} change_rows[] = {
    {"v = 3;", true},
    {"v += 3;", true},
    {"++v;", true},
    {"v--;", true},
    {"f(&v);", true},
    {"f(&v[3]);", false},
    {"if (a && v) b;", false},
    {"a == v;", false},
    {"v.push_back(a);", true},
    {"v->reset();", true},
    {"v.size();", false},
    {"f(std::move(v));", true},
    {"a.v = 3;", false},
    {"f(v);", false},
    {"f(\"v = 3\"); // v = 3", false},
};

TABLE_TEST(what_gives_a_name_another_value, change_rows)
{
    struct code code = expression_read(change_rows[_i].text);
    ck_assert_int_eq(expression_sets(&code, (struct token_range){0, code.count}, "v", 1), change_rows[_i].sets);
    code_free(&code);
}

static const struct {
    const char *text; /* line "//0" uses the variable `v` */
    int lines[3];     /* that set it so that it may differ; 0: no more */
} setting_rows[] = {
    {"void f() {\n    float v = g();\n    use(v); //0\n}\n", {2}},
    {"void f() {\n    float v = 3;\n    use(v); //0\n}\n", {0}},
    {"void f() {\n    float v = sqrt(3.0);\n    use(v); //0\n}\n", {0}},
    {"void f() {\n    float v;\n    read(&v);\n    use(v); //0\n}\n", {3}},
    {"void f() {\n    float v;\n    cublasSscal(h, n, &v, x, 1);\n    use(v); //0\n}\n", {0}},
    {"void f() {\n    float v;\n    cublasSnrm2(h, n, x, 1, &v);\n    use(v); //0\n}\n", {3}},
    {"void f() {\n    float v = 1;\n    if (seen > 3)\n        v = 2;\n    use(v); //0\n}\nint seen = count();\n", {4}},
    {"void f() {\n    float v = 1, w = g();\n    v *= w;\n    use(v); //0\n    v = g();\n}\n", {3}},
    {"void f() {\n    float v = 1;\n    for (;;) {\n        use(v); //0\n        v = g();\n    }\n}\n", {5}},
    {"void f() {\n    float v = 1;\n    // v = g();\n    char *s = \"v = g()\";\n    use(v); //0\n}\n", {0}},
    {"void f() {\n    float v = 1;\n    other.v = g();\n    use(v); //0\n}\n", {0}},
};

TABLE_TEST(settings_that_may_differ_are_found, setting_rows)
{
    struct site_place frames[FRAMES_AT_MOST];
    struct setting list[SETTINGS_AT_MOST];
    (void)write_source(setting_rows[_i].text, (const char *const[]){"f"}, frames);
    const struct source *source = sources_open(&sources, path);
    const uint32_t use = source_statement(source, frames[0].line, 0)->tokens.first;
    const struct variable variable = variable_find(source, use, "v", 1);
    const size_t count = settings_that_differ(&variable, use, list);
    size_t wanted = 0;
    while (setting_rows[_i].lines[wanted] != 0)
        ++wanted;
    ck_assert_uint_eq(count, wanted);
    for (size_t i = 0; i < count; ++i)
        ck_assert_uint_eq(source->code.tokens[list[i].token].line, setting_rows[_i].lines[i]);
}
