/*
 * printable.h - texts from outside (arguments, names in files, variables) on their way to a terminal.
 *
 * Called by what prints messages and findings. No allocation, no locale; safe in any thread.
 */
#ifndef DDPRUN_BASE_PRINTABLE_H
#define DDPRUN_BASE_PRINTABLE_H

/* Puts '?' for each control character that is not in `kept`, and for each byte that belongs to no UTF-8. In place; the
 * text does not get longer. */
void printable_make(char *text, const char *kept);

#endif
