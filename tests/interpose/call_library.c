/* call_library.c - a program whose annotations are in a shared library. */
int annotated_main(void);

int
main(void)
{
    return annotated_main();
}
