/*
 * test_mangled.c - kernels' names say what their pointers lead to: names as g++ and clang++ write them, with what was
 * declared; and what is not understood says nothing at all.
 */
#include "tests/lib/test.h"
#include "tools/scout/format/log.h"

/* For each parameter: -: no pointer; v: a pointer to no float; s, d, h, b: to float32, float64, float16, bfloat16; in
 * upper case: to pointers to them. "": nothing is said. */
static const struct {
    const char *name, *said;
} names[] = {
    {"_Z3sgdPfS_if", "ss--"},
    {"_Z3sgdPfPKfi", "ss-"},
    {"_ZL3sgdPfPKfi", "ss-"},
    {"_Z4noneP1Av", "v-"},
    {"_Z4nonev", "0"},
    {"_Z5wordsPcPvPjPyP4int4P5uint2Pi", "vvvvvvv"},
    {"_Z4wideP6float4PK6float2P6float3P7double2", "sssd"},
    {"_Z4halfP6__halfPK7__half2P13__nv_bfloat16P14__nv_bfloat162", "hhbb"},
    {"_Z5adamwPfS_S_PKfS1_iffPd", "sssss---d"},
    {"_Z5tablePPfPKPKdPPPf", "SDv"},
    {"_Z9referenceRfPf", "-s"},
    {"_Z7qualifyPVKfPrPf", "sS"},
    {"_Z8callbackPFvPfiES_", "vs"},
    {"_ZN3net3sgdEPfS0_", "ss"},
    {"_ZN12_GLOBAL__N_13sgdEPd", "d"},
    /* net::__half and net::float4 are other classes than CUDA's */
    {"_ZN3net4k393EfPK13__nv_bfloat16P6float2PNS_6float4ES6_", "-bsvv"},
    {"_ZN3net4k386EPNS_6__halfE", "v"},
    /* templates: the result comes first, T_ is the function's argument */
    {"_Z4gemmI6__halfEvPKT_S3_PS1_i", "hhh-"},
    {"_Z4gemmIdLi256ELb1EEvPKT_S2_PS0_", "ddd"},
    {"_ZN3net4gemmIfiEEvPKT_S3_PT0_S5_", "ssvv"},
    {"_ZN3FooIfE3barIdEEvPT_", "d"},
    {"_ZN3FooIfE3barEPf", "s"},
    {"_Z4k362I6float2vPKPKPfEvPT_PT1_PT0_S8_", "svvv"},
    {"_Z5packsIJfdEEvP4PackIJDpT_EEPf", "vs"},
    {"_Z1kP4PackIJifEEPd", "vd"},
    {"_Z1kPN3net4ViewI6float2EEPKS1_Pf", "vss"},
    {"_Z1kSt4pairIPfS0_EPS1_PS0_", "-vS"},
    {"_ZN3net4k181EPNS_4ViewIPV4PackIJEEEEPK6__half", "vh"},
    {"_ZN2tn4k100IPK7__half2EEvT_PS4_", "hH"},
    /* what is not understood */
    {"sgd", ""},
    {"_Z3sgd", ""},
    {"_Z3sgdPf.constprop.0", ""},
    {"_Z3sgdPfS0_", ""},
    {"_Z3sgdPfT_", ""},
    {"_Z3sgdIfEvPT0_", ""},
    {"_Z3sgdIfEfPT_", "s"},
    {"_Z3sgdPfz", ""},
    {"_Z3sgdPA10_f", "v"},
    {"_Z3sgdCf", "-"},
    {"_Z3sgdM3netf", "v"},
    {"_Z3sgdDv4_f", "-"},
    {"_Z3sgdB5cxx11Pf", "s"},
    {"_Z3forIZ4mainEUlPfiE_EvT_S0_", "-s"},
    {"_ZZ4mainENKUlPfE_clES_", ""},
    {"_Z3forIXadL_Z3sgdPfEEEvS0_", "s"},
    {"_Z3sgdPN3netUt_E", "v"},
    {"_ZNK3net3sgdEPf", ""},
    {"_Z99999999999999999999sgdPf", ""},
    {"_ZN", ""},
    {"_Z3sgdP", ""},
    {"_Z3sgdIfEv", ""},
};

static char
letter_of(const struct mangled_parameter *parameter)
{
    static const char plain[] = "vsdhb", tables[] = "vSDHB";
    if (!parameter->is_pointer)
        return '-';
    return parameter->table != SCOUT_UNKNOWN ? tables[parameter->table] : plain[parameter->pointee];
}

TEST(names_say_types)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        struct mangled_parameter parameters[16];
        char said[32] = "";
        int count = mangled_parameters(names[i].name, parameters, 16);
        for (int k = 0; k < count; ++k)
            said[k] = letter_of(&parameters[k]);
        ck_assert_msg(strcmp(count == 0 ? "0" : said, names[i].said) == 0, "%s: %s, not %s", names[i].name, said,
                      names[i].said);
    }
}

TEST(words)
{
    struct mangled_parameter parameters[8];
    ck_assert_int_eq(mangled_parameters("_Z5wordsPtPKiPvPhPfm", parameters, 8), 6);
    for (int i = 0; i < 6; ++i)
        ck_assert(parameters[i].is_words == (i < 2) && parameters[i].is_bytes == (i == 3));
}

TEST(names_that_are_too_much_say_nothing)
{
    struct mangled_parameter parameters[4];
    ck_assert_int_eq(mangled_parameters("_Z3sgdPfS_S_S_", parameters, 4), 4);
    ck_assert_int_eq(mangled_parameters("_Z3sgdPfS_S_S_S_", parameters, 4), -1);
    char deep[20000] = "_Z3sgd";
    memset(deep + strlen(deep), 'P', 19000);
    ck_assert_int_eq(mangled_parameters(deep, parameters, 4), -1);
}

/* A name that was cut says nothing, or no more than a shorter list of parameters. */
TEST(names_that_are_cut)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
        for (size_t length = 0; length < strlen(names[i].name); ++length) {
            struct mangled_parameter parameters[16];
            char *cut = strndup(names[i].name, length);
            ck_assert_int_le(mangled_parameters(cut, parameters, 16), (int)strlen(names[i].name));
            free(cut);
        }
}
