/*
 * test_json.c - the lines of a trace are those that json-c writes, byte for byte: every kind of value, texts with every
 * byte, numbers at their limits and at random, objects and arrays in each other. And the point stays one in every
 * locale of this machine.
 */
#include "interpose/engine/report/trace_file.h"

#include "tests/lib/test.h"

#include <json-c/json.h>
#include <locale.h>

void
stop_job_by(enum comm_cause cause, const char *format, ...)
{
    ck_abort_msg("%d: %s", (int)cause, format);
    __builtin_unreachable();
}

/* The same line twice: `number` in all forms, and the text. */
static void
compare(double number, const char *text)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    struct json line;
    json_begin(&line);
    json_add_u64(&line, "u64", bits);
    json_add_i64(&line, "i64", (int64_t)bits);
    json_open(&line, "array", '[');
    json_open(&line, NULL, '{');
    json_add_bool(&line, "yes", true);
    json_add_bool(&line, "no", false);
    json_close(&line, '}');
    json_open(&line, NULL, '[');
    json_close(&line, ']');
    json_add_u64(&line, NULL, 1);
    json_close(&line, ']');
    json_add_text(&line, "text", text);
    json_add_double(&line, "double", number);
    if (isfinite(number))
        json_add_us(&line, "us", number);
    json_end(&line);

    json_object *root = json_object_new_object(), *array = json_object_new_array(), *inner = json_object_new_object();
    json_object_object_add(root, "u64", json_object_new_uint64(bits));
    json_object_object_add(root, "i64", json_object_new_int64((int64_t)bits));
    json_object_object_add(inner, "yes", json_object_new_boolean(true));
    json_object_object_add(inner, "no", json_object_new_boolean(false));
    json_object_array_add(array, inner);
    json_object_array_add(array, json_object_new_array());
    json_object_array_add(array, json_object_new_int(1));
    json_object_object_add(root, "array", array);
    json_object_object_add(root, "text", json_object_new_string(text));
    json_object_object_add(root, "double", json_object_new_double(number));
    char us[400], *wanted = NULL;
    snprintf(us, sizeof(us), "%.3f", number);
    if (isfinite(number))
        json_object_object_add(root, "us", json_object_new_double_s(number, us));
    ck_assert_int_gt(asprintf(&wanted, "%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN)), 0);
    ck_assert_str_eq(line.text, wanted);
    ck_assert_uint_eq(line.bytes, strlen(wanted));
    json_object_put(root);
    free(line.text);
    free(wanted);
}

TEST(texts)
{
    char text[256];
    for (int i = 0; i < 255; ++i)
        text[i] = (char)(i + 1);
    text[255] = '\0';
    compare(0, text);
    compare(0, "");
}

TEST(numbers)
{
    static const double numbers[] = {0,    -0.0, 1,     -3,       1.5,       1.1,    1e16, 1e17,
                                     1e-7, 1e22, 1e300, INFINITY, -INFINITY, 5e-324, NAN,  123456789012345678.0};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
        compare(numbers[i], "a number");
    srandom(1);
    for (int i = 0; i < 20000; ++i) {
        uint64_t bits = (uint64_t)random() << 42 ^ (uint64_t)random() << 21 ^ (uint64_t)random();
        double number;
        memcpy(&number, &bits, sizeof(number));
        compare(i % 2 == 0 ? number : (double)random() / 1e3, "at random");
    }
}

TEST_GROUP(locales_group, .timeout_s = 60);

/* Where printf() has a comma, a line has none. The locale is made here: few machines have one. */
TEST(locales)
{
    char folder[] = "/tmp/ddprun-locale-XXXXXX", command[256];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s/de_DE 2>/dev/null >&2", folder);
    bool made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    bool set = setlocale(LC_ALL, "de_DE") != NULL;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    if (!made) {
        printf("skipped: localedef cannot make a locale (package locales)\n");
        return;
    }
    ck_assert(set);
    char text[16];
    snprintf(text, sizeof(text), "%.1f", 1.5);
    ck_assert_str_eq(text, "1,5");
    struct json line;
    json_begin(&line);
    json_add_double(&line, "a", 1234.5);
    json_add_us(&line, "b", -1234.5);
    json_end(&line);
    ck_assert_str_eq(line.text, "{\"a\":1234.5,\"b\":-1234.500}\n");
    free(line.text);
    setlocale(LC_ALL, "C");
}
