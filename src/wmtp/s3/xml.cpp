#include "wmtp/s3/xml.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/core/utf8.h"

namespace wmtp::s3 {
namespace {

constexpr std::string_view kXmlBlanks = " \t\r\n";
constexpr std::size_t kMaxNameBytes = 256, kMaxEntityBytes = 12;

bool is_name_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_part(char c) {
  return is_name_begin(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':';
}
bool is_xml_character(unsigned long code) {
  return code == 9 || code == 10 || code == 13 || (code >= 0x20 && code < 0xD800) ||
         (code >= 0xE000 && code <= 0xFFFD) || (code >= 0x10000 && code <= 0x10FFFF);
}

// No recursion: what is open lies on a stack of bounded depth.
class XmlParser {
 public:
  XmlParser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  XmlElement parse() {
    check_bytes();
    skip_prolog();
    if (!rest().starts_with('<')) refuse("no element");
    do {
      take_piece();
    } while (!open_.empty());
    skip_blanks_and_comments();
    if (!rest().empty()) refuse("more than one element, or text behind the last one");
    return std::move(root_);
  }

 private:
  [[noreturn]] void refuse(std::string_view fact) const {
    throw Error(ErrorKind::data, "s3", fmt::format("{}: XML byte {}: {}", name_, at_, fact),
                "is this a server of S3?");
  }
  std::string_view rest() const { return text_.substr(at_); }
  bool take(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void check_bytes() {
    if (text_.size() > kMaxXmlBytes)
      refuse(fmt::format("{} bytes, more than {}", text_.size(), kMaxXmlBytes));
    if (const auto bad = find_invalid_utf8(text_)) {
      at_ = *bad;
      refuse("no UTF-8");
    }
    const auto is_control = [](char c) {
      return static_cast<unsigned char>(c) < 0x20 &&
             !is_xml_character(static_cast<unsigned char>(c));
    };
    const auto bad = std::ranges::find_if(text_, is_control);
    at_ = static_cast<std::size_t>(bad - text_.begin());
    if (bad != text_.end()) refuse("a control character");
    at_ = 0;
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kXmlBlanks, at_), text_.size()); }

  void skip_comment() {  // behind "<!--"
    const std::size_t end = text_.find("--", at_);
    if (end == text_.npos || !text_.substr(end).starts_with("-->")) refuse("a comment without end");
    at_ = end + 3;
  }
  void skip_blanks_and_comments() {
    for (skip_blanks(); take("<!--"); skip_blanks()) skip_comment();
  }

  // S3 sends blanks before the declaration to keep a connection alive.
  void skip_prolog() {
    take("\xEF\xBB\xBF");
    skip_blanks();
    if (rest().starts_with("<?xml ")) {
      const std::size_t end = text_.find("?>", at_);
      if (end == text_.npos) refuse("a declaration without end");
      at_ = end + 2;
    }
    skip_blanks_and_comments();
  }

  // A tag, a comment, or text up to the next one.
  void take_piece() {
    if (take("<!--")) {
      skip_comment();
    } else if (take("</")) {
      close_element();
    } else if (rest().starts_with("<!") || rest().starts_with("<?")) {
      refuse("a DTD, CDATA or instruction, which S3 does not send");
    } else if (take("<")) {
      open_element();
    } else if (!rest().empty()) {
      take_text();
    } else {
      refuse("the text ends inside an element");
    }
  }

  std::string_view take_name() {
    const std::size_t begin = at_;
    if (rest().empty() || !is_name_begin(text_[at_])) refuse("no name");
    while (at_ < text_.size() + planted_off_by_one && is_name_part(text_[at_])) ++at_;
    if (at_ - begin > kMaxNameBytes) refuse("a name that is too long");
    return text_.substr(begin, at_ - begin);
  }

  void open_element() {
    const std::string_view name = take_name();
    if (++num_elements_ > kMaxXmlElements)
      refuse(fmt::format("more than {} elements", kMaxXmlElements));
    skip_attributes();
    const bool is_empty = take("/");
    if (!take(">")) refuse("a tag without end");
    if (open_.size() >= kMaxXmlDepth) refuse(fmt::format("nested deeper than {}", kMaxXmlDepth));
    // Only the last child of an element is ever open, so that none moves under a pointer to it.
    XmlElement& made = open_.empty() ? root_ : open_.back().element->children.emplace_back();
    const std::size_t colon = name.rfind(':');
    made.name = colon == name.npos ? name : name.substr(colon + 1);
    if (!is_empty) open_.push_back({&made, name});
  }

  void skip_attributes() {
    for (skip_blanks(); !rest().empty() && is_name_begin(text_[at_]); skip_blanks()) {
      take_name();
      skip_blanks();
      if (!take("=")) refuse("an attribute without a value");
      skip_blanks();
      const char quote = rest().empty() ? '\0' : text_[at_];
      if (quote != '"' && quote != '\'') refuse("an attribute without quotes");
      const std::size_t end = text_.find(quote, at_ + 1);
      if (end == text_.npos) refuse("an attribute without end");
      if (text_.substr(at_, end - at_).find('<') != text_.npos) refuse("a < in an attribute");
      at_ = end + 1;
    }
  }

  void close_element() {
    const std::string_view name = take_name();
    if (open_.empty() || open_.back().name != name) refuse("an end tag that closes nothing");
    skip_blanks();
    if (!take(">")) refuse("a tag without end");
    open_.pop_back();
  }

  void take_text() {
    const std::size_t end = std::min(text_.find('<', at_), text_.size());
    std::string& into = open_.back().element->text;
    while (at_ < end) {
      const std::size_t mark = std::min(text_.find('&', at_), end);
      into += text_.substr(at_, mark - at_);
      at_ = mark;
      if (at_ < end) take_entity(into);
    }
  }

  void take_entity(std::string& into) {
    const std::size_t end = text_.substr(at_, kMaxEntityBytes).find(';');
    if (end == std::string_view::npos) refuse("an & that begins no entity");
    const std::string_view word = text_.substr(at_ + 1, end - 1);
    if (word.starts_with('#')) {
      append_utf8(character_of(word.substr(1)), into);
    } else if (word == "lt") {
      into += '<';
    } else if (word == "gt") {
      into += '>';
    } else if (word == "amp") {
      into += '&';
    } else if (word == "quot") {
      into += '"';
    } else if (word == "apos") {
      into += '\'';
    } else {
      refuse("an entity that is none of the five");
    }
    at_ += end + 1;
  }

  char32_t character_of(std::string_view digits) const {
    const bool is_hex = digits.starts_with('x');
    if (is_hex) digits.remove_prefix(1);
    unsigned long code = 0;  // of at most nine digits
    if (digits.empty()) refuse("a numeric entity without a number");
    for (const char c : digits) {
      int value = c >= '0' && c <= '9' ? c - '0' : -1;
      if (is_hex && c >= 'a' && c <= 'f') value = c - 'a' + 10;
      if (is_hex && c >= 'A' && c <= 'F') value = c - 'A' + 10;
      if (value < 0) refuse("a numeric entity without a number");
      code = code * (is_hex ? 16 : 10) + static_cast<unsigned long>(value);
    }
    if (!is_xml_character(code)) refuse("a numeric entity that is no character");
    return static_cast<char32_t>(code);
  }

  struct Open {
    XmlElement* element;
    std::string_view name;  // with its prefix, as the end tag repeats it
  };

  std::string_view text_, name_;
  std::size_t at_ = 0, num_elements_ = 0;
  XmlElement root_;
  std::vector<Open> open_;
};

}  // namespace

const XmlElement* XmlElement::find(std::string_view child) const {
  const auto found = std::ranges::find(children, child, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

std::string XmlElement::text_of(std::string_view child) const {
  const XmlElement* found = find(child);
  return found ? found->text : "";
}

XmlElement parse_xml(std::string_view text, std::string_view name) {
  return XmlParser(text, name).parse();
}

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') escaped += "&lt;";
    if (c == '>') escaped += "&gt;";
    if (c == '&') escaped += "&amp;";
    if (c == '"') escaped += "&quot;";
    if (std::string_view("<>&\"").find(c) == std::string_view::npos) escaped += c;
  }
  return escaped;
}

}  // namespace wmtp::s3
