#include "wmtp/s3/xml.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::s3 {
namespace {

void expect_refused(std::string_view text, std::string_view part) {
  SCOPED_TRACE(text.substr(0, 80));
  EXPECT_WMTP_ERROR(parse_xml(text, "the answer"), ErrorKind::data, std::string(part));
}

TEST(Xml, ElementsTextsAndAttributes) {
  const XmlElement root = parse_xml(
      " \n<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a - comment -->\n"
      "<A xmlns=\"http://x/\" y='&lt;'><b>one</b><b>two</b><s:c s:d='e'/><d>\n</d ></A>\n",
      "x");
  EXPECT_EQ(root.name, "A");
  ASSERT_EQ(root.children.size(), 4u);
  EXPECT_EQ(root.text_of("b"), "one");
  EXPECT_EQ(root.children[1].text, "two");
  EXPECT_NE(root.find("c"), nullptr);
  EXPECT_EQ(root.text_of("d"), "\n");
  EXPECT_EQ(root.find("e"), nullptr);
  EXPECT_EQ(root.text_of("e"), "");
}

TEST(Xml, TheFiveEntitiesAndNumbers) {
  EXPECT_EQ(parse_xml("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x1F600;&#10;</a>", "x").text,
            "<>&\"'A\U0001F600\n");
  EXPECT_EQ(parse_xml("<a>" + xml_escaped("<&>\"'") + "</a>", "x").text, "<&>\"'");
}

TEST(Xml, WhatIsNoDocumentIsRefused) {
  expect_refused("", "no element");
  expect_refused("text", "no element");
  expect_refused("<a>", "ends inside an element");
  expect_refused("<a></b>", "closes nothing");
  expect_refused("</a>", "closes nothing");
  expect_refused("<a/><b/>", "more than one element");
  expect_refused("<a/>text", "text behind");
  expect_refused("<a", "a tag without end");
  expect_refused("<a b>", "an attribute without a value");
  expect_refused("<a b=c>", "an attribute without quotes");
  expect_refused("<a b='c>", "an attribute without end");
  expect_refused("<a b='<'/>", "a < in an attribute");
  expect_refused("<1/>", "no name");
  expect_refused("<!-- x", "a comment without end");
  expect_refused("<?xml version='1.0'", "a declaration without end");
  expect_refused("<a>\x01</a>", "XML byte 3: a control character");
  expect_refused("<a>\xff</a>", "XML byte 3: no UTF-8");
  expect_refused("<" + std::string(300, 'a') + "/>", "a name that is too long");
}

TEST(Xml, DtdsEntitiesCdataAndInstructionsAreRefused) {
  expect_refused("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "a DTD");
  expect_refused("<a><![CDATA[x]]></a>", "CDATA");
  expect_refused("<a><?php x?></a>", "instruction");
  for (const char* text : {"<a>&b;</a>", "<a>&nbsp;</a>", "<a>&;</a>"})
    expect_refused(text, "none of the five");
  for (const char* text : {"<a>&</a>", "<a>& b</a>", "<a>&aaaaaaaaaaaaaaaaa;</a>"})
    expect_refused(text, "an & that begins no entity");
  for (const char* text : {"<a>&#0;</a>", "<a>&#x1f;</a>", "<a>&#xD800;</a>", "<a>&#x110000;</a>"})
    expect_refused(text, "no character");
  for (const char* text : {"<a>&#;</a>", "<a>&#x;</a>", "<a>&#-1;</a>", "<a>&#xg;</a>"})
    expect_refused(text, "without a number");
}

TEST(Xml, DepthSizeAndNumberAreLimited) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "<a>";
    for (int i = 0; i < depth; ++i) text += "</a>";
    return text;
  };
  EXPECT_NO_THROW(parse_xml(nested(16), "x"));
  expect_refused(nested(17), "nested deeper than 16");
  expect_refused(std::string(kMaxXmlBytes + 1, ' '), "more than 16777216");
  std::string many = "<a>";
  for (std::size_t i = 0; i < kMaxXmlElements; ++i) many += "<b/>";
  expect_refused(many + "</a>", "more than 100000 elements");
}

TEST(Xml, ErrorsDoNotRepeatTheText) {
  try {
    parse_xml("<a>canary&canary;</a>", "the answer");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string_view(error.what()).find("canary"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace wmtp::s3
