/*
 * static_program.c - a program without a dynamic loader, into which nothing can be preloaded; run.sh sees it refused.
 */
int
main(void)
{
    return 0;
}
