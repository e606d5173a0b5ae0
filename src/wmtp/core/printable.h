// Foreign text where people read it. Names and values of files end up in messages; a terminal must
// not act on what they hold, and one value must not fill the screen.
#pragma once
#include <string>
#include <string_view>

namespace wmtp {

// Text that a terminal only shows: control characters and marks that turn the direction of writing
// are spelled out as JSON would (\u001b, \u202e), bytes that are no UTF-8 as \xff. Line feeds and
// tabs stay; so do colours (ESC [ 1 ; 31 m) where they are allowed.
enum class Colours { escaped, kept };
std::string escape_control(std::string_view text, Colours colours = Colours::escaped);

// The same for a message: words of more than 200 characters are cut in the middle ("1234[99800
// more]6789").
std::string printable(std::string_view message);

// A word as a shell takes it: quoted where it holds more than letters, digits and %+,-./:=@_.
std::string shell_word(std::string_view word);

}  // namespace wmtp
