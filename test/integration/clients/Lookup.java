import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Hashtable;
import javax.naming.NamingEnumeration;
import javax.naming.directory.Attribute;
import javax.naming.directory.InitialDirContext;

/** What Java makes of names, one after the other: `a NAME` by InetAddress, `srv NAME` by JNDI; a line `-` ends each. */
class Lookup {
  public static void main(String[] words) {
    for (int i = 0; i + 1 < words.length; i += 2) {
      try {
        if (words[i].equals("srv")) services(words[i + 1]);
        else for (InetAddress one : InetAddress.getAllByName(words[i + 1])) System.out.println(one.getHostAddress());
      } catch (Exception error) {
        System.out.println("! " + error);
      }
      System.out.println("-");
    }
  }

  private static void services(String name) throws Exception {
    Hashtable<String, String> settings = new Hashtable<>();
    settings.put("java.naming.factory.initial", "com.sun.jndi.dns.DnsContextFactory");
    settings.put("java.naming.provider.url", "dns://127.0.0.1");
    Attribute records = new InitialDirContext(settings).getAttributes(name, new String[] {"SRV"}).get("SRV");
    if (records == null) throw new UnknownHostException(name);
    for (NamingEnumeration<?> all = records.getAll(); all.hasMore(); ) {
      String[] parts = all.next().toString().split(" ");
      System.out.println(parts[2] + " " + parts[3]);
    }
  }
}
