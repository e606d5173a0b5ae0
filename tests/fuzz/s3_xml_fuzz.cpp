#include "fuzz/fuzz.h"
#include "wmtp/core/error.h"
#include "wmtp/core/utf8.h"
#include "wmtp/s3/answers.h"

namespace {

using wmtp::s3::XmlElement;

// Text between the elements is blank in what S3 sends, and is kept where it is not.
std::string written(const XmlElement& element) {
  std::string text = "<" + element.name + ">" + wmtp::s3::xml_escaped(element.text);
  for (const XmlElement& child : element.children) text += written(child);
  return text + "</" + element.name + ">";
}

std::size_t checked_depth(const XmlElement& element) {
  wmtp::fuzz::require(!element.name.empty(), "an element without a name");
  wmtp::fuzz::require(!wmtp::find_invalid_utf8(element.text), "a text that is no UTF-8");
  std::size_t depth = 0;
  for (const XmlElement& child : element.children) depth = std::max(depth, checked_depth(child));
  return depth + 1;
}

// The readers of answers may refuse what is good XML; what they accept has names.
template <class Read>
void try_reader(const Read& read) {
  try {
    read();
  } catch (const wmtp::Error& error) {
    wmtp::fuzz::require(
        error.kind() == wmtp::ErrorKind::data || error.kind() == wmtp::ErrorKind::config,
        "an error of another kind");
  }
}

}  // namespace

WMTP_FUZZ_TARGET(s3_xml) {
  using namespace wmtp;
  const std::string_view text = fuzz::text_of(bytes);
  const XmlElement root = s3::parse_xml(text, "body");
  fuzz::require(checked_depth(root) <= s3::kMaxXmlDepth, "elements deeper than the limit");
  const std::string again = written(root);
  if (again.size() <= s3::kMaxXmlBytes)
    fuzz::require(written(s3::parse_xml(again, "body")) == again,
                  "a document that does not come back");
  try_reader([&] {
    for (const s3::ObjectEntry& object : s3::parse_object_page(text).objects)
      fuzz::require(!object.key.empty(), "an object without a key");
  });
  try_reader([&] {
    for (const s3::UploadEntry& upload : s3::parse_upload_page(text).uploads)
      fuzz::require(!upload.key.empty() && !upload.upload_id.empty(), "an upload without a name");
  });
  try_reader([&] {
    for (const s3::PartEntry& part : s3::parse_part_page(text).parts)
      fuzz::require(part.number >= 0 && part.number <= 10'000, "a part beyond the last one");
  });
  try_reader([&] { fuzz::require(!s3::parse_upload_id(text).empty(), "an upload without an id"); });
  try_reader([&] { s3::parse_completion(text); });
  s3::parse_error(text);
}
