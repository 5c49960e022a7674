// SPDX-License-Identifier: MIT
// An XML document is parsed, transformed by a stylesheet with templates, keys, sorting and arithmetic, and written as
// HTML by libxslt: in the place of 483.xalancbmk, single-threaded. The document is made up: the orders of a shop. All
// trees are made anew in each turn. The library's calls go to malloc, or through the recorder where latencies are
// wanted. An operation is an order. The result is checked: it names every order and adds up to what the generator says.
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxslt/transform.h>
#include <libxslt/xslt.h>
#include <libxslt/xsltInternals.h>
#include <libxslt/xsltutils.h>

#include "suite.hpp"

namespace {

constexpr const char* kStylesheet = R"xsl(<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="html" indent="yes"/>
<xsl:key name="by_customer" match="order" use="customer"/>
<xsl:template match="/shop">
 <html><body><h1>Orders</h1>
 <table><xsl:apply-templates select="order"><xsl:sort select="customer"/><xsl:sort select="@number" data-type="number"
   order="descending"/></xsl:apply-templates></table>
 <ul><xsl:for-each select="order[generate-id() = generate-id(key('by_customer', customer)[1])]">
  <li><xsl:value-of select="customer"/>: <xsl:value-of select="count(key('by_customer', customer))"/> orders,
   <xsl:value-of select="sum(key('by_customer', customer)/line/@pieces)"/> pieces</li></xsl:for-each></ul>
 <p class="total"><xsl:value-of select="sum(order/line/@pieces)"/></p></body></html>
</xsl:template>
<xsl:template match="order">
 <tr id="o{@number}"><td><xsl:value-of select="concat(translate(substring(customer, 1, 1), 'c', 'C'),
   substring(customer, 2))"/></td>
 <td><xsl:choose><xsl:when test="sum(line/@pieces) &gt; 40"><b>large</b></xsl:when><xsl:otherwise>small</xsl:otherwise>
 </xsl:choose></td><td><xsl:apply-templates select="line"/></td></tr>
</xsl:template>
<xsl:template match="line">
 <span title="{normalize-space(.)}"><xsl:value-of select="@pieces * @price"/></span>
</xsl:template>
</xsl:stylesheet>)xsl";

struct Document {
  suite::Text text;
  size_t pieces;
};

Document make_document(size_t orders, uint64_t seed) {
  Document result{suite::Text(orders * 1024 + 4096), 0};
  suite::Random random(seed);
  result.text.put("<?xml version=\"1.0\"?>\n<shop>\n");
  for (size_t i = 0; i < orders; ++i) {
    result.text.put(" <order number=\"%zu\"><customer>customer %zu</customer>\n", i, random.below(orders / 8 + 1));
    for (size_t lines = random.between(1, 6); lines > 0; --lines) {
      size_t pieces = random.between(1, 20);
      result.pieces += pieces;
      result.text.put("  <line pieces=\"%zu\" price=\"%zu\">article %zu &amp; %s</line>\n", pieces,
                      random.between(1, 500), random.below(1000), random.below(2) == 0 ? "wrapping" : "a letter");
    }
    result.text.put(" </order>\n");
  }
  result.text.put("</shop>\n");
  return result;
}

xmlDoc* parse(const char* text, size_t length, const char* name) {
  xmlDoc* document = xmlReadMemory(text, static_cast<int>(length), name, nullptr, 0);
  suite::require(document != nullptr, "a document cannot be parsed");
  return document;
}

// Returns the hash of the result.
uint64_t transform(const Document& document, size_t length, size_t orders) {
  xmlDoc* sheet_document = parse(kStylesheet, strlen(kStylesheet), "sheet.xsl");
  xsltStylesheet* sheet = xsltParseStylesheetDoc(sheet_document);
  suite::require(sheet != nullptr, "the stylesheet cannot be read");
  xmlDoc* source = parse(document.text.text(), length, "shop.xml");
  xmlDoc* result = xsltApplyStylesheet(sheet, source, nullptr);
  suite::require(result != nullptr, "the transformation has failed");
  xmlChar* text = nullptr;
  int size = 0;
  suite::require(xsltSaveResultToString(&text, &size, result, sheet) == 0 && text != nullptr, "no result");
  const char* html = reinterpret_cast<const char*>(text);
  size_t rows = 0;
  for (const char* at = html; (at = strstr(at, "<tr id=")) != nullptr; ++at) ++rows;
  suite::require(rows == orders, "an order is missing");
  size_t total = bench::figure(html, "<p class=\"total\">");
  suite::require(total == document.pieces, "the result's sum is wrong");
  uint64_t hash = suite::hash_bytes(text, static_cast<size_t>(size));
  xmlFree(text);
  xmlFreeDoc(result);
  xmlFreeDoc(source);
  xsltFreeStylesheet(sheet);
  return hash;
}

char* duplicate(const char* text) {
  size_t size = strlen(text) + 1;
  return static_cast<char*>(memcpy(suite::allocate(size), text, size));
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "xml", "scalloc 7.1, figure 5 (483.xalancbmk)", "a document is transformed by libxslt");
  size_t orders = run.number("orders", 5'000, "orders in the document", 1, 1'000'000);
  size_t repeat = run.scaled("repeat", 100, "times that it is parsed, transformed and written");
  run.begin(1);

  Document document = make_document(orders, run.seed());
  size_t length = strlen(document.text.text());
  // Before the library's first call, as it has to be.
  if (run.records()) {
    suite::require(xmlMemSetup(suite::release, suite::allocate, suite::reallocate, duplicate) == 0, "no recorder");
  }
  uint64_t checksum = 0;
  run.start();
  for (size_t i = 0; i < repeat; ++i) {
    uint64_t hash = transform(document, length, orders);
    suite::require(i == 0 || hash == checksum, "two results differ");
    checksum = hash;
  }
  run.stop();
  xsltCleanupGlobals();
  xmlCleanupParser();
  run.add("document_bytes", static_cast<double>(length));
  run.report(orders * repeat, checksum);
}
