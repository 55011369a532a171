/*
 * style.h - how a page looks: the style sheet, which is all that the page has besides its content.
 */
#ifndef DDPRUN_LAUNCHER_PAGE_STYLE_H
#define DDPRUN_LAUNCHER_PAGE_STYLE_H

/* For light and dark, and from 320 pixels of width on. Colours of parts differ in lightness too, for readers who do not
 * tell colours apart (after M. Okabe and K. Ito, Color Universal Design). */
extern const char page_style[];

#endif
