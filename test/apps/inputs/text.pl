# SPDX-License-Identifier: MIT
# Allocation heavy and deterministic: hashes of arrays, strings that grow, regular expressions, sorting, objects. Hashes
# are walked in sorted order only, since Perl seeds their order per process.
use strict;
use warnings;

my $seed = 42;
sub random { my $limit = shift; $seed = ($seed * 1103515245 + 12345) % 2147483648; return int($seed / 256) % $limit }

sub checksum {
  my $sum = 0;
  for my $text (@_) { $sum = ($sum * 31 + unpack("%32C*", $text) + length $text) % 1000000007 }
  return $sum;
}

# Words, counted, indexed and sorted.
my (%index, @words);
for my $line (0 .. 199999) {
  my $word = join "", map { chr(97 + random(26)) } 1 .. 1 + random(4);
  push @words, $word;
  push @{ $index{$word}{lines} }, $line;
  $index{$word}{count}++;
}
my @common = sort { $index{$b}{count} <=> $index{$a}{count} || $a cmp $b } keys %index;
print "words ", scalar(@common), " ", checksum(map { "$_=" . join ",", @{ $index{$_}{lines} } } @common), "\n";

# Strings that grow, shrink, and are cut up by regular expressions.
my $text = "";
for my $i (1 .. 300000) {
  $text .= $words[random(scalar @words)] . ($i % 11 ? " " : ".\n");
  $text = substr($text, length($text) / 2) if length($text) > 400000;
}
my @sentences = split /\.\n/, $text;
(my $swapped = $text) =~ s/(\w+) (\w+)/$2-$1/g;
my %pairs;
$pairs{"$1$2"}++ while $text =~ /\b(\w)\w* (\w)/g;
print "text ", length($text), " ", scalar(@sentences), " ", checksum($swapped), " ",
  checksum(map { "$_$pairs{$_}" } sort keys %pairs), "\n";

# Objects that refer to one another, and are released in another order.
package Node { sub new { my ($class, %fields) = @_; return bless {%fields}, $class } }
my (@nodes, $live);
for my $i (1 .. 600000) {
  my $slot = main::random(20000);
  $nodes[$slot] = Node->new(number => $i, name => "node $i", next => $nodes[main::random(20000)]);
  $nodes[$slot]{next}{next} = undef if $nodes[$slot]{next};
}
$live = grep { defined } @nodes;
print "nodes $live ", main::checksum(map { $_ ? $_->{name} : "" } @nodes), "\n";

# Large arrays: sort, splice, reverse, join.
my @numbers = map { main::random(1000000) } 1 .. 500000;
my @sorted = sort { $a <=> $b } @numbers;
splice @sorted, main::random(scalar @sorted), main::random(20), map { $_ * 2 } 1 .. main::random(20) for 1 .. 3000;
print "numbers ", scalar(@sorted), " ", main::checksum(join ",", reverse @sorted), "\n";
