/** The template tag of every component: htm bound to Preact's `h`. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
