// A strict reader of the XML that S3 answers with: elements, text, the five named entities and
// numeric ones. No DTD, no CDATA, no instructions but the declaration; attributes are read over.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::s3 {

inline constexpr std::size_t kMaxXmlBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxXmlDepth = 16, kMaxXmlElements = 100'000;

struct XmlElement {
  std::string name;  // without the part before a colon
  std::string text;  // its own, all pieces together; of elements with children the blanks between
  std::vector<XmlElement> children;

  // The first child of that name; nullptr: there is none.
  const XmlElement* find(std::string_view child) const;
  std::string text_of(std::string_view child) const;  // "" where there is none
};

// The outermost element. Error data naming `name`, the byte and the fact where the text is none.
// The text is not repeated: it may hold keys.
XmlElement parse_xml(std::string_view text, std::string_view name);

std::string xml_escaped(std::string_view text);

}  // namespace wmtp::s3
