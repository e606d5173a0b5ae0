// Foreign text where people read it. Names and values of files end up in messages; a terminal must
// not act on what they hold, and one value must not fill the screen.
#pragma once
#include <string>
#include <string_view>

namespace wmtp {

// Text that a terminal only shows: control characters, marks that turn the direction of writing, and
// bytes that are no UTF-8 are spelled out (\x1b, \u202e). Line feeds and tabs stay.
std::string escape_control(std::string_view text);

// The same for a message: words of more than 200 characters are cut in the middle ("1234[99800
// more]6789").
std::string printable(std::string_view message);

}  // namespace wmtp
